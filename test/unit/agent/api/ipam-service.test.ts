import { errorAnswer } from "../../../../agent/api/error-answer.ts";
import { IpamService } from "../../../../agent/api/ipam-service.ts";
import type { NodeRecord } from "../../../../ipam-plugin/host-scope/node-record.ts";
import { type Address, formatAddress } from "../../../../lib/addresses/address.ts";
import { address, prefix } from "../../../support/addresses.ts";
import { fresh } from "../../../support/fixtures.ts";
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
    const record: NodeRecord = {
      node: "node1",
      bootId: "boot",
      ipv4: { cidr: prefix("10.60.0.0/24"), source: "spec", router: address("10.60.0.99") },
      exclusions: [],
      strategy: "contiguous",
      cooldownMs: 0,
    };
    return new IpamService({
      hostScope: () => hostScope,
      record: () => record,
      endpointOf: (address) => this.used.get(formatAddress(address)),
    });
  }

  granted(): readonly string[] {
    return [...this.files.grants().keys()].sort();
  }
}

/** The HTTP status that the call would have. */
function statusOf(call: Promise<unknown>): Promise<number> {
  return call.then(
    () => 200,
    (error: unknown) => errorAnswer(error).status,
  );
}

const world = fresh(() => new World());
const ipam = fresh(() => world.start());

describe("IPAM over the API", () => {
  it("A-P03: gives one address of each family with its token, and none when the second family is full", async () => {
    const small = new World({ cidrs: ["10.60.0.0/30", "fd60::/64"] });
    const ipam = small.start();
    expect(await ipam.grant(undefined, "shop/web", false)).toEqual({
      address: {
        ipv4: "10.60.0.1",
        "ipv4-expiration-uuid": "token-2",
        ipv6: "fd60::1",
        "ipv6-expiration-uuid": "token-1",
      },
      "host-addressing": { ipv4: { enabled: true, ip: "10.60.0.99", "alloc-range": "10.60.0.0/24", source: "spec" } },
      ipv4: { ip: "10.60.0.1", token: "token-2" },
      ipv6: { ip: "fd60::1", token: "token-1" },
    });
    await ipam.grant(undefined, "shop/web", false);
    expect(await statusOf(ipam.grant(undefined, "shop/web", false))).toBe(507);
    expect(small.granted()).toEqual(["10.60.0.1", "10.60.0.2", "fd60::1", "fd60::2"]);
  });

  it("A-P04: answers 501 for a family that the node does not have, and grants nothing", async () => {
    const world = new World({ cidrs: ["10.60.0.0/24"] });
    expect(await statusOf(world.start().grant("ipv6", "shop/web", false))).toBe(501);
    expect(world.granted()).toEqual([]);
  });

  it("A-P05: gives the address that is asked for, or says why not", async () => {
    const ipam = new World({ excluded: ["10.60.0.7/32"] }).start();
    const ask = (text: string) => statusOf(ipam.grantAddress(text, "shop/web"));
    expect(await ask("10.60.0.5")).toBe(200);
    expect(await ask("10.60.0.5")).toBe(409);
    expect(await ask("10.61.0.5")).toBe(400);
    expect(await ask("10.60.0.0")).toBe(400);
    expect(await ask("10.60.0.7")).toBe(409);
    expect(await ask("ten")).toBe(400);
    await expect(ipam.grantAddress("10.60.0.5", "other")).rejects.toMatchObject({ details: "held by shop/web" });
  });

  it("A-P06: releases for the owner or by the token, once", async () => {
    await ipam.grantAddress("10.60.0.5", "X");
    expect(await statusOf(ipam.release("10.60.0.5", { owner: "Y" }))).toBe(409);
    expect(await statusOf(ipam.release("10.60.0.5", {}))).toBe(409);
    expect(await statusOf(ipam.release("10.60.0.5", { owner: "X" }))).toBe(200);
    expect(await statusOf(ipam.release("10.60.0.5", { owner: "X" }))).toBe(404);

    const { ipv4 } = await ipam.grantAddress("10.60.0.6", "X");
    expect(await statusOf(ipam.release("10.60.0.6", { token: "wrong" }))).toBe(409);
    expect(await statusOf(ipam.release("10.60.0.6", { token: ipv4?.token ?? "" }))).toBe(200);
  });

  it("A-P06: releases every address of an owner that is named instead of an address", async () => {
    for (const owner of ["X", "X", "Y"]) await ipam.grant("ipv4", owner, false);
    await ipam.release("X", {});
    expect(await statusOf(ipam.release("nobody", {}))).toBe(404);
    expect(world.granted()).toEqual(["10.60.0.3"]);
  });

  it("keeps an address that an endpoint uses, whoever asks", async () => {
    await ipam.grantAddress("10.60.0.5", "X");
    world.used.set("10.60.0.5", 7);
    await expect(ipam.release("10.60.0.5", { owner: "X" })).rejects.toMatchObject({ message: expect.stringContaining("endpoint 7") });
    expect(await statusOf(ipam.release("X", {}))).toBe(409);
  });

  it("keeps the node's own addresses out of everybody's reach", async () => {
    await hostScopeOf({ directory: world.files.connect() }).grant({ owner: { kind: "name", name: "node/router" } });
    expect(await statusOf(ipam.grant(undefined, "node/router", false))).toBe(400);
    expect(await statusOf(ipam.grant(undefined, "", false))).toBe(400);
    expect(await statusOf(ipam.release("10.60.0.1", { owner: "node/router" }))).toBe(409);
    expect(await statusOf(ipam.release("node/router", {}))).toBe(404);
    expect(world.granted()).toEqual(["10.60.0.1"]);
  });

  it("A-P07: keeps a grant that expires over a restart, releases it after ten minutes, and not when an endpoint has it", async () => {
    const world = new World({ cidrs: ["10.60.0.0/24"] });
    const first = await world.start().grant(undefined, "shop/web", true);
    await world.start().grant(undefined, "shop/api", true);
    await world.start().grant(undefined, "shop/db", false);
    expect(first.ipv4).toMatchObject({ ip: "10.60.0.1", "expiration-uuid": first.ipv4?.token });
    const isUsed = (address: Address) => formatAddress(address) === "10.60.0.2";

    const restarted = hostScopeOf({ directory: world.files.connect(), nowMs: () => world.now });
    world.now += 599_000;
    expect(await restarted.expire(isUsed)).toEqual([]);
    world.now += 1_000;
    expect((await restarted.expire(isUsed)).map(formatAddress)).toEqual(["10.60.0.1"]);
    const { status, allocations, ranges } = await world.start().dump();
    expect({ status, allocations }).toEqual({
      status: "IPv4: 2/254 allocated from 10.60.0.0/24",
      allocations: { "10.60.0.2": "shop/api", "10.60.0.3": "shop/db" },
    });
    expect(ranges).toEqual([
      {
        family: "ipv4",
        cidr: "10.60.0.0/24",
        size: 254,
        used: 2,
        free: 252,
        cooling: 1,
        excluded: 0,
        foreign: 0,
        grants: [
          {
            address: "10.60.0.2",
            owner: "shop/api",
            "granted-at": "2026-08-22T13:33:20.000Z",
            "expires-at": "2026-08-22T13:43:20.000Z",
          },
          { address: "10.60.0.3", owner: "shop/db", "granted-at": "2026-08-22T13:33:20.000Z" },
        ],
      },
    ]);
  });
});
