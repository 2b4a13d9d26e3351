import { IpamService } from "../../../../agent/ipam-service/ipam-service.ts";
import { IPAM_STATUSES } from "../../../../agent/ipam-service/statuses.ts";
import type { NodeRecord } from "../../../../ipam-plugin/host-scope/node-record.ts";
import { formatAddress, parseAddress } from "../../../../lib/addresses/address.ts";
import { TortieError } from "../../../../lib/errors/errors.ts";
import { prefix } from "../../../support/desired-state.ts";
import { GrantFileSystem, type HostScopeOptions, hostScopeOf } from "../../../support/grant-directories.ts";

const NOW = 1_787_405_600_000;

class World {
  readonly files = new GrantFileSystem();
  now = NOW;
  readonly used = new Map<string, number>();
  readonly #options: HostScopeOptions;

  constructor(options: HostScopeOptions = {}) {
    this.#options = { cidrs: ["10.60.0.0/24", "fd60::/64"], ...options };
  }

  /** The service as an agent has it after a start. */
  start(): IpamService {
    const hostScope = hostScopeOf({ ...this.#options, directory: this.files.connect(), nowMs: () => this.now });
    const router = parseAddress("10.60.0.99");
    const record: NodeRecord = {
      node: "node1",
      bootId: "boot",
      ipv4: { cidr: prefix("10.60.0.0/24"), source: "spec", ...(router === undefined ? {} : { router }) },
      exclusions: [],
      strategy: "contiguous",
      cooldownMs: 0,
    };
    return new IpamService({
      hostScope: () => hostScope,
      record: () => record,
      endpointOf: (address) => this.used.get(formatAddress(address)),
      nowMs: () => this.now,
    });
  }

  granted(): readonly string[] {
    return [...this.files.grants().keys()].sort();
  }
}

/** The HTTP status that the call would have. */
async function statusOf(call: Promise<unknown>, success = 200): Promise<number> {
  try {
    await call;
    return success;
  } catch (error) {
    const status = Object.entries(IPAM_STATUSES).find(([word]) => error instanceof TortieError && error.word === word)?.[1];
    if (status === undefined) throw error;
    return status;
  }
}

describe("IPAM over the API", () => {
  it("A-P03: gives one address of each family with its token, and none when the second family is full", async () => {
    const world = new World({ cidrs: ["10.60.0.0/30", "fd60::/64"] });
    const ipam = world.start();
    expect(await ipam.allocate({ owner: "shop/web" })).toEqual({
      address: { ipv4: "10.60.0.1", ipv6: "fd60::1" },
      "host-addressing": { ipv4: { enabled: true, ip: "10.60.0.99", "alloc-range": "10.60.0.0/24", source: "spec" } },
      ipv4: { ip: "10.60.0.1", token: "token-2" },
      ipv6: { ip: "fd60::1", token: "token-1" },
    });
    await ipam.allocate({ owner: "shop/web" });
    expect(await statusOf(ipam.allocate({ owner: "shop/web" }))).toBe(507);
    expect(world.granted()).toEqual(["10.60.0.1", "10.60.0.2", "fd60::1", "fd60::2"]);
  });

  it("A-P04: answers 501 for a family that the node does not have, and grants nothing", async () => {
    const world = new World({ cidrs: ["10.60.0.0/24"] });
    expect(await statusOf(world.start().allocate({ owner: "shop/web", family: "ipv6" }))).toBe(501);
    expect(world.granted()).toEqual([]);
  });

  it("A-P05: gives the address that is asked for, or says why not", async () => {
    const ipam = new World({ excluded: ["10.60.0.7/32"] }).start();
    const ask = (text: string) => statusOf(ipam.allocateAddress(text, { owner: "shop/web" }));
    expect(await ask("10.60.0.5")).toBe(200);
    expect(await ask("10.60.0.5")).toBe(409);
    expect(await ask("10.61.0.5")).toBe(400);
    expect(await ask("10.60.0.0")).toBe(400);
    expect(await ask("10.60.0.7")).toBe(409);
    expect(await ask("ten")).toBe(400);
    await expect(ipam.allocateAddress("10.60.0.5", { owner: "other" })).rejects.toMatchObject({ details: "held by shop/web" });
  });

  it("A-P06: releases for the owner or by the token, once", async () => {
    const ipam = new World().start();
    await ipam.allocateAddress("10.60.0.5", { owner: "X" });
    expect(await statusOf(ipam.release("10.60.0.5", { owner: "Y" }))).toBe(409);
    expect(await statusOf(ipam.release("10.60.0.5", {}))).toBe(409);
    expect(await statusOf(ipam.release("10.60.0.5", { owner: "X" }))).toBe(200);
    expect(await statusOf(ipam.release("10.60.0.5", { owner: "X" }))).toBe(404);
    expect(await ipam.release("10.60.0.5", { owner: "X" }, { isIdempotent: true })).toEqual([]);

    const { ipv4 } = await ipam.allocateAddress("10.60.0.6", { owner: "X" });
    expect(await statusOf(ipam.release("10.60.0.6", { token: "wrong" }))).toBe(409);
    expect(await ipam.release("10.60.0.6", { token: ipv4?.token ?? "" })).toEqual(["10.60.0.6"]);
  });

  it("A-P06: releases every address of an owner that is named instead of an address", async () => {
    const world = new World();
    const ipam = world.start();
    for (const owner of ["X", "X", "Y"]) await ipam.allocate({ owner, family: "ipv4" });
    expect(await ipam.release("X", {})).toEqual(["10.60.0.1", "10.60.0.2"]);
    expect(await statusOf(ipam.release("nobody", {}))).toBe(404);
    expect(world.granted()).toEqual(["10.60.0.3"]);
  });

  it("keeps an address that an endpoint uses, whoever asks", async () => {
    const world = new World();
    const ipam = world.start();
    await ipam.allocateAddress("10.60.0.5", { owner: "X" });
    world.used.set("10.60.0.5", 7);
    await expect(ipam.release("10.60.0.5", { owner: "X" })).rejects.toMatchObject({ message: expect.stringContaining("endpoint 7") });
    expect(await statusOf(ipam.release("X", {}))).toBe(409);
  });

  it("keeps the node's own addresses out of everybody's reach", async () => {
    const world = new World();
    const ipam = world.start();
    await hostScopeOf({ directory: world.files.connect() }).grant({ owner: { kind: "name", name: "node/router" } });
    expect(await statusOf(ipam.allocate({ owner: "node/router" }))).toBe(400);
    expect(await statusOf(ipam.allocate({ owner: "" }))).toBe(400);
    expect(await statusOf(ipam.release("10.60.0.1", { owner: "node/router" }))).toBe(409);
    expect(await statusOf(ipam.release("node/router", {}))).toBe(404);
    expect(world.granted()).toEqual(["10.60.0.1"]);
  });

  it("A-P07: keeps a grant that expires over a restart, releases it after ten minutes, and not when it was confirmed", async () => {
    const world = new World({ cidrs: ["10.60.0.0/24"] });
    const first = await world.start().allocate({ owner: "shop/web", expires: true });
    const second = await world.start().allocate({ owner: "shop/api", expires: true });
    expect(first.address).toEqual({ ipv4: "10.60.0.1", "ipv4-expiration-uuid": first.ipv4?.token });
    const address = parseAddress("10.60.0.2") ?? { family: 4 as const, value: 0n };
    await expect(world.start().confirm(address, { token: "wrong" }, 12)).rejects.toMatchObject({ word: "release-mismatch" });
    await world.start().confirm(address, { token: second.ipv4?.token ?? "" }, 12);

    const restarted = hostScopeOf({ directory: world.files.connect(), nowMs: () => world.now });
    world.now += 599_000;
    expect(await restarted.expire()).toEqual([]);
    world.now += 1_000;
    expect((await restarted.expire()).map(formatAddress)).toEqual(["10.60.0.1"]);
    expect((await world.start().dump()).grants).toEqual([
      { address: "10.60.0.2", owner: "shop/api", endpoint: 12, ageMs: 600_000, isForeign: false },
    ]);
  });
});
