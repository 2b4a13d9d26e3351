/**
 * The cases of Calico's suite for its IPAM executable (I§8.1) that are the same on every store: called as that suite calls it, by absolute
 * path, with nothing but CNI_* in the environment, five seconds at most, standard output parsed as JSON.
 */
import { contains, parseAddress, parsePrefix } from "../../lib/addresses/address.ts";
import type { CniRun, Node } from "./node.ts";

export const NODE = "node-a";
export const POOL4 = "192.168.0.0/16";
export const POOL6 = "fd80:24e2:f998:72d6::/64";

/** The patience of Calico's suite. */
const SUITE_LIMIT_MS = 5000;

export interface IpamCall {
  readonly container?: string;
  /** CNI_ARGS. */
  readonly args?: string;
  /** Over the `ipam` section. */
  readonly ipam?: Readonly<Record<string, unknown>>;
  /** The patience of Calico's suite when absent. */
  readonly timeoutMs?: number;
}

/** What the suite parses. */
export interface Answer {
  readonly exit: number | null;
  readonly addresses: readonly string[];
  readonly routes: readonly string[];
  readonly msg: string;
}

export interface HeldOwners {
  readonly address: string;
  readonly active: Readonly<Record<string, string>>;
  readonly alternate: Readonly<Record<string, string>>;
}

/** One node on some store, with the suite's two pools, `p4` and `p6`, and nothing held. */
export interface CalicoSuite {
  add(call?: IpamCall): Promise<Answer>;
  del(call?: IpamCall): Promise<Answer>;
  createPool(name: string, pool: { readonly cidr: string; readonly allowedUses?: readonly "Tunnel"[] }): Promise<void>;
  disablePool(name: string): Promise<void>;
  removePool(name: string): Promise<void>;
  /** Addresses that are held by the handle, with their owners but for the times; IPv4 first. */
  heldBy(handle: string): Promise<readonly HeldOwners[]>;
  /** Whom a block belongs to: "host:node-a". */
  ownerOf(cidr: string): Promise<string | undefined>;
  /** That no handle is left, and no address. */
  expectNothingHeld(): Promise<void>;
}

export async function callIpam(
  node: Node,
  command: string,
  { container = "cid1", args, timeoutMs }: IpamCall,
  conf: object,
): Promise<Answer> {
  const { exit, json }: CniRun = await node.cni(command, {
    plugin: "calico-ipam",
    containerId: container,
    netns: "b",
    ifname: "c",
    path: "d",
    args: args ?? "",
    conf: `${JSON.stringify({ name: "net1", type: "calico", log_level: "debug", nodename: NODE, ...conf })}\n`,
    timeoutMs: timeoutMs ?? SUITE_LIMIT_MS,
  });
  const answer = (json ?? {}) as {
    readonly ips?: readonly { readonly address: string }[];
    readonly routes?: readonly { readonly dst: string }[];
    readonly msg?: string;
  };
  return {
    exit,
    addresses: (answer.ips ?? []).map(({ address }) => address),
    routes: (answer.routes ?? []).map(({ dst }) => dst),
    msg: answer.msg ?? "",
  };
}

export function timeless(attributes: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  const { timestamp: _time, ...rest } = attributes;
  return rest;
}

const V4 = { assign_ipv4: "true" };
const V6 = { assign_ipv4: "false", assign_ipv6: "true" };
const BOTH = { assign_ipv4: "true", assign_ipv6: "true" };
const IN_POOL4 = expect.stringMatching(/^192\.168\.\d+\.\d+\/26$/);
const IN_POOL6 = expect.stringMatching(/^fd80:24e2:f998:72d6:.*\/122$/);
const ASKED = { args: "IP=192.168.123.123" };
const DONE = { exit: 0, addresses: [], routes: [], msg: "" };

/** There are routes, and every address lies in the destination of one. */
function expectRoutes({ addresses, routes }: Answer): void {
  expect(routes.length).toBeGreaterThan(0);
  for (const text of addresses) {
    const address = parseAddress(text.replace(/\/.*/, ""));
    const isCovered = routes.some((route) => {
      const prefix = parsePrefix(route);
      return address !== undefined && prefix !== undefined && contains(prefix, address);
    });
    expect({ text, isCovered }).toEqual({ text, isCovered: true });
  }
}

/** @param suite a fresh one in each test */
export function testCalicoCases(suite: CalicoSuite): void {
  it.each<[string, Readonly<Record<string, unknown>>, readonly unknown[]]>([
    ["I1: gives an IPv4 address in a /26 without any configuration", {}, [IN_POOL4]],
    ["I2: gives an IPv4 address in a /26 when it is asked for IPv4", V4, [IN_POOL4]],
    ["I3: gives an IPv6 address in a /122 when it is asked for IPv6 only", V6, [IN_POOL6]],
    ["I4: gives one of each when it is asked for both", BOTH, [IN_POOL4, IN_POOL6]],
  ])("%s", async (_title, ipam, addresses) => {
    const answer = await suite.add({ ipam });
    expect(answer).toMatchObject({ exit: 0, addresses });
    expectRoutes(answer);
    expect(await suite.heldBy("net1.cid1")).toEqual(
      answer.addresses.map((address) => ({ address: address.replace(/\/\d+$/, ""), active: { node: NODE }, alternate: {} })),
    );
    expect(await suite.del({ ipam })).toEqual(DONE);
    await suite.expectNothingHeld();
  });

  it.each([
    ["I5: gives no address of either family when there is no IPv4 pool", "p4"],
    ["I6: gives no address of either family when there is no IPv6 pool", "p6"],
  ])("%s", async (_title, pool) => {
    await suite.removePool(pool);
    for (let time = 0; time < 2; time++) {
      const answer = await suite.add({ ipam: BOTH });
      expect(answer).toMatchObject({ exit: 1, addresses: [] });
      expect(answer.msg).not.toBe("");
    }
    expect(await suite.del({ ipam: BOTH })).toMatchObject({ exit: 0 });
    await suite.expectNothingHeld();
  });

  it("I7: takes the one pool that is listed", async () => {
    await suite.createPool("other", { cidr: "10.1.0.0/24" });
    const answer = await suite.add({ ipam: { ipv4_pools: [POOL4] } });
    expect(answer).toMatchObject({ exit: 0, addresses: [expect.stringMatching(/^192\.168\./)] });
  });

  it("I8: takes one of two pools that are listed", async () => {
    await suite.createPool("other", { cidr: "192.169.1.0/24" });
    const { addresses } = await suite.add({ ipam: { ipv4_pools: [POOL4, "192.169.1.0/24"] } });
    expect(addresses).toEqual([expect.stringMatching(/^192\.16[89]\./)]);
  });

  it("I9: takes another pool once the first is disabled, for the same container too", async () => {
    expect((await suite.add()).addresses).toEqual([expect.stringMatching(/^192\.168\./)]);
    await suite.disablePool("p4");
    await suite.createPool("other", { cidr: "192.169.1.0/24" });
    expect((await suite.add()).addresses).toEqual([expect.stringMatching(/^192\.169\.1\./)]);
    await suite.del();
    await suite.expectNothingHeld();
  });

  it.each([
    ["I10: refuses a list with an unknown pool at its end", [POOL4, "192.169.1.0/24"]],
    ["I11: refuses a list with an unknown pool at its beginning", ["192.169.1.0/24", POOL4]],
  ])("%s", async (_title, pools) => {
    const { exit, msg } = await suite.add({ ipam: { ipv4_pools: pools } });
    expect(exit).toBe(1);
    expect(msg).toContain("192.169.1.0/24) does not exist");
  });

  it("I12: gives the very address that is asked for, as /32", async () => {
    expect(await suite.add(ASKED)).toEqual({ exit: 0, addresses: ["192.168.123.123/32"], routes: ["192.168.123.123/32"], msg: "" });
    expect(await suite.ownerOf("192.168.123.64/26")).toBe(`host:${NODE}`);
  });

  it("I13: gives the same address again after its DEL", async () => {
    for (let time = 0; time < 2; time++) {
      expect((await suite.add(ASKED)).addresses).toEqual(["192.168.123.123/32"]);
      expect(await suite.del(ASKED)).toMatchObject({ exit: 0 });
    }
  });

  it("I14: refuses an address that is taken, by the same container too", async () => {
    expect(await suite.add(ASKED)).toMatchObject({ exit: 0 });
    const second = await suite.add(ASKED);
    expect(second).toMatchObject({ exit: 1, addresses: [], msg: expect.stringContaining("Address already assigned in block") });
    expect(await suite.heldBy("net1.cid1")).toHaveLength(1);
  });

  it("I15: refuses an address of a pool that is not for workloads", async () => {
    await suite.createPool("tunnels", { cidr: "10.123.0.0/16", allowedUses: ["Tunnel"] });
    const answer = await suite.add({ args: "IP=10.123.0.5" });
    expect(answer).toMatchObject({ exit: 1, addresses: [], msg: expect.stringContaining("not allowed for use") });
  });

  it("I16: has nothing against the DEL of a container that was never added", async () => {
    expect(await suite.del(ASKED)).toEqual(DONE);
  });
}
