/** Which running connections are ended when permissions go. */
import { Flows } from "../../../../agent/policy/flows.ts";
import type { TrackedFlow } from "../../../../dataplane/conntrack/message.ts";
import type { EndpointPolicy, PacketPolicy, Permissions } from "../../../../dataplane/packet-policy.ts";
import { formatAddress } from "../../../../lib/addresses/address.ts";
import type { EngineChange, SideJudgement } from "../../../../policy/model.ts";
import { address } from "../../../support/addresses.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { DENIES } from "../../../support/policy-view.ts";

const [POD, PEER, SERVICE] = [address("10.0.0.1"), address("10.0.0.2"), address("10.96.0.1")];
const UDP = 17;
const TCP = 6;

/** From the peer to the pod's port 53, asked for by way of a Service. */
function flow(protocol: number): TrackedFlow {
  return {
    family: 4,
    protocol,
    original: { source: PEER, destination: SERVICE, sourcePort: 7, destinationPort: 5300 },
    reply: { source: POD, destination: PEER, sourcePort: 53, destinationPort: 7 },
    key: [],
  };
}

const ports = (first: number, last: number): Permissions => new Map([["c", [{ protocol: UDP, first, last }]]]);
const endpoint = (ingress: Permissions | undefined): EndpointPolicy => ({ addresses: [POD], ingress, egress: undefined });
const change = (ingress: Permissions | undefined): EngineChange => ({
  endpoints: new Map([["cali1", endpoint(ingress)]]),
  addresses: new Map(),
  blocks: undefined,
  moved: [],
});

/** @param side what both ends say @param looked ends when an answer may come @param listed ends when the first list may come */
function world(side: Partial<SideJudgement> = {}, looked = async () => {}, listed = async () => {}) {
  const clock = new FakeClock();
  const asked: string[][] = [];
  const judged: string[] = [];
  const removed: TrackedFlow[] = [];
  const log: string[] = [];
  let state: PacketPolicy = { endpoints: new Map(), addresses: new Map(), blocks: [] };
  const flows = new Flows({
    table: {
      addresses: async () => {
        await listed();
        return ["10.0.0.9"];
      },
      of: async (addresses) => {
        asked.push(addresses.map(formatAddress));
        await looked();
        return [flow(UDP), flow(TCP)];
      },
      remove: (gone) => void removed.push(...gone),
    },
    judge: ({ source, destination, protocol, port }) => {
      judged.push(`${formatAddress(source)} ${formatAddress(destination)} ${protocol} ${port}`);
      const ingress = { ...DENIES, ...side };
      return { verdict: ingress.verdict, egress: undefined, ingress };
    },
    state: () => state,
    clock,
    log: { info: (message) => log.push(message), error: (message) => log.push(message) },
  });
  const realised = async (change: EngineChange) => {
    flows.realised(change);
    await clock.advance(1_000);
  };
  return { clock, flows, asked, judged, removed, log, realised, holds: (now: PacketPolicy) => (state = now) };
}

describe("running connections", () => {
  it.each<[string, Permissions | undefined, Permissions | undefined, boolean]>([
    ["a closed direction opens", new Map(), undefined, false],
    ["an open direction closes", undefined, new Map(), true],
    ["ports are added", ports(53, 53), ports(50, 60), false],
    ["ports go", ports(50, 60), ports(53, 53), true],
    ["a class goes", new Map([["c", "all"]]), new Map([["d", "all"]]), true],
    ["all becomes some ports", new Map([["c", "all"]]), ports(53, 53), true],
    ["some ports become all", ports(53, 53), new Map([["c", "all"]]), false],
    ["nothing changes", ports(53, 53), ports(53, 53), false],
  ])("are looked at where they may have lost a permission: %s", async (_, before, after, isLookedAt) => {
    const { asked, realised } = world();
    await realised(change(before));
    expect(asked).toEqual([]);
    await realised(change(after));
    expect(asked).toEqual(isLookedAt ? [["10.0.0.1"]] : []);
  });

  it("are judged behind the translation of a Service, and ended if denied; those of TCP stay", async () => {
    const { judged, removed, log, realised } = world();
    await realised(change(undefined));
    await realised(change(new Map()));
    expect(judged).toEqual(["10.0.0.2 10.0.0.1 17 53"]);
    expect(removed.map(({ protocol }) => protocol)).toEqual([UDP]);
    expect(log).toEqual(["connections that policy no longer allows are ended"]);
  });

  it("stay while they are allowed", async () => {
    const { removed, log, realised } = world({ verdict: "allow" });
    await realised(change(undefined));
    await realised(change(new Map()));
    expect([removed, log]).toEqual([[], []]);
  });

  it("stay where a rule of another node's pod names a port whose number is not known here", async () => {
    const { removed, realised } = world({ lacksPorts: true });
    await realised(change(ports(50, 60)));
    await realised(change(ports(53, 53)));
    expect(removed).toEqual([]);
  });

  it("are looked at when a peer falls into another class, and of every enforced endpoint when blocks change or all may have", async () => {
    const { flows, asked, realised, clock, holds } = world();
    const peer = (moved: readonly string[]): EngineChange => ({
      ...{ endpoints: new Map(), addresses: new Map([["10.0.0.2", "c"]]), blocks: undefined },
      moved,
    });
    await realised(peer([]));
    expect(asked).toEqual([]);
    await realised(peer(["10.0.0.2"]));
    expect(asked).toEqual([["10.0.0.2"]]);
    await realised(change(new Map()));
    await realised({ endpoints: new Map(), addresses: new Map(), blocks: [], moved: [] });
    expect(asked).toEqual([["10.0.0.2"], ["10.0.0.1"]]);
    holds({
      endpoints: new Map([
        ["cali2", endpoint(new Map())],
        ["cali3", endpoint(undefined)],
      ]),
      addresses: new Map(),
      blocks: [],
    });
    flows.realised("all");
    await clock.advance(1_000);
    expect(asked).toHaveLength(3);
  });

  it("are looked at together where changes come in a burst", async () => {
    const { flows, asked, clock } = world({ verdict: "allow" });
    for (let times = 0; times < 50; times++) {
      flows.realised({ endpoints: new Map(), addresses: new Map(), blocks: undefined, moved: [`10.1.0.${times}`] });
      await clock.advance(10);
    }
    await clock.advance(2_000);
    expect(asked.length).toBeLessThan(4);
    expect(new Set(asked.flat()).size).toBe(50);
  });

  it("are all ended behind the DEL of their pod, those of TCP too, and those of a burst in one look", async () => {
    const { flows, removed, asked, clock } = world({ verdict: "allow" });
    for (const address of [POD, PEER]) flows.released([address]);
    await clock.advance(2_000);
    expect(removed).toHaveLength(2);
    expect(asked).toEqual([["10.0.0.1", "10.0.0.2"]]);
  });

  it("are ended before their address is given again, and looked for only where an earlier pod may have had some", async () => {
    const { flows, asked, clock } = world({ verdict: "allow" });
    await flows.given([POD]);
    expect(asked).toEqual([]);
    await flows.given([address("10.0.0.9")]);
    await flows.given([address("10.0.0.9")]);
    expect(asked).toEqual([["10.0.0.9"]]);
    flows.released([POD]);
    await flows.given([POD]);
    expect(asked).toEqual([["10.0.0.9"], ["10.0.0.1"]]);
    await clock.advance(1_000);
    expect(asked).toHaveLength(2);
  });

  it("are those of the earlier pod alone where an address is given while a look is under way", async () => {
    const look = Promise.withResolvers<void>();
    const { flows, asked, clock } = world({ verdict: "allow" }, () => look.promise);
    flows.released([POD]);
    await clock.advance(2_000);
    expect(asked).toEqual([["10.0.0.1"]]);
    let isGiven = false;
    const given = flows.given([POD]).then(() => {
      isGiven = true;
    });
    await clock.advance(0);
    expect(isGiven).toBe(false);
    look.resolve();
    await given;
    expect(asked).toHaveLength(1);
  });

  it("are ended before an address is given while it is not known yet which addresses have some", async () => {
    const listed = Promise.withResolvers<void>();
    const { flows, asked } = world({ verdict: "allow" }, undefined, () => listed.promise);
    const given = flows.given([address("10.0.0.9")]);
    expect(asked).toEqual([]);
    listed.resolve();
    await given;
    expect(asked).toEqual([["10.0.0.9"]]);
  });

  it("keep nobody waiting who stops", async () => {
    const { flows, asked } = world({ verdict: "allow" });
    flows.released([POD]);
    await flows.stop();
    expect(asked).toEqual([]);
  });
});
