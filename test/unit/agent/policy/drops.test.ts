import { type Drop, type DropWitness, dropOf } from "../../../../agent/policy/drop.ts";
import { Drops, MOST_A_SECOND, MOST_IN_ALL, MOST_OF_AN_ENDPOINT } from "../../../../agent/policy/drops.ts";
import type { LoggedPacket } from "../../../../dataplane/nflog/message.ts";
import { logPrefix } from "../../../../dataplane/nftables/policy/log-prefix.ts";
import { formatAddress } from "../../../../lib/addresses/address.ts";
import type { Judgement, SideJudgement } from "../../../../policy/model.ts";
import { address } from "../../../support/addresses.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { fresh } from "../../../support/fixtures.ts";
import { DENIES } from "../../../support/policy-view.ts";

const DENIED: SideJudgement = { ...DENIES, decidedBy: undefined, reason: "no rule of shop/close allows port 8081" };
const PODS: Readonly<Record<string, string>> = { "10.0.0.1": "shop/db", "10.0.0.2": "shop/web" };

/** Two pods: shop/db behind interface 3, shop/web behind interface 9. */
function witness(judgement: Partial<Judgement> = { ingress: DENIED }): DropWitness {
  return {
    nameOf: (index) => ({ 3: "calidb", 9: "caliweb" })[index],
    podBehind: (name) => ({ calidb: "shop/db", caliweb: "shop/web" })[name],
    podAt: (one) => PODS[formatAddress(one)],
    identityOf: (pod) => ({ "shop/db": 70_000 })[pod],
    judge: () => ({ verdict: "deny", egress: undefined, ingress: undefined, ...judgement }),
  };
}

const PACKET: LoggedPacket = {
  prefix: logPrefix("ingress", "denied"),
  inInterface: 3,
  outInterface: 9,
  sequence: 1,
  header: {
    source: address("10.0.0.1"),
    destination: address("10.0.0.2"),
    protocol: 6,
    sourcePort: 40_000,
    destinationPort: 8081,
    tcpFlags: 2,
  },
};
const TIME = new Date("2026-01-02T03:04:05.678Z");

describe("a dropped packet", () => {
  it("is explained by the engine's judgement of its direction", () => {
    expect(dropOf(PACKET, TIME, witness())).toEqual({
      time: "2026-01-02T03:04:05.678Z",
      hostInterface: "caliweb",
      pod: "shop/web",
      direction: "ingress",
      reason: "denied",
      source: { address: "10.0.0.1", pod: "shop/db", identity: 70_000, port: 40_000 },
      destination: { address: "10.0.0.2", pod: "shop/web", identity: undefined, port: 8081 },
      protocol: "TCP",
      policies: ["shop/close"],
      decidedBy: undefined,
      explanation: "no rule of shop/close allows port 8081",
    } satisfies Drop);
  });

  it("belongs to the endpoint that it came from where it was dropped as egress", () => {
    const drop = dropOf({ ...PACKET, prefix: logPrefix("egress", "denied") }, TIME, witness({ egress: { ...DENIED, reason: "closed" } }));
    expect(drop).toMatchObject({ hostInterface: "calidb", pod: "shop/db", direction: "egress", explanation: "closed" });
  });

  it("says so when the policies allow it by now, or the endpoint is gone", () => {
    const allowed = { ...DENIED, verdict: "allow", reason: "rule 1 of shop/open allows it" } as const;
    expect(dropOf(PACKET, TIME, witness({ ingress: allowed }))?.explanation).toBe(
      "the policies have changed since, and allow it now: rule 1 of shop/open allows it",
    );
    expect(dropOf(PACKET, TIME, witness({}))?.explanation).toBe("the endpoint is not known any more");
  });

  it.each([
    ["invalid", /^connection tracking cannot tell/],
    ["tcp-without-syn", /^a TCP packet without SYN begins no connection/],
    ["endpoint-unknown", /^nobody has said yet what this host end may do/],
  ] as const)("for the reason %s is not blamed on a policy", (reason, explanation) => {
    const drop = dropOf({ ...PACKET, prefix: logPrefix("ingress", reason) }, TIME, witness());
    expect(drop).toMatchObject({ reason, policies: [], explanation: expect.stringMatching(explanation) });
  });

  it("still says what it can of ends that are gone", () => {
    const gone = dropOf({ ...PACKET, outInterface: 12 }, TIME, { ...witness(), podAt: () => undefined });
    expect(gone).toMatchObject({ hostInterface: "interface 12, which is gone", pod: undefined, source: { pod: undefined } });
    expect(dropOf({ ...PACKET, outInterface: undefined }, TIME, witness())?.hostInterface).toBe("-");
  });

  it("is nobody's that another program's rule logged, or that cannot be read", () => {
    expect(dropOf({ ...PACKET, prefix: "ufw block" }, TIME, witness())).toBeUndefined();
    expect(dropOf({ ...PACKET, header: undefined }, TIME, witness())).toBeUndefined();
  });

  it("does not carry a sentence of any length", () => {
    const drop = dropOf(PACKET, TIME, witness({ ingress: { ...DENIED, reason: "x".repeat(100_000) } }));
    expect(drop?.explanation.length).toBeLessThan(1100);
  });
});

/** A packet that is dropped at this interface. */
const at = (outInterface: number): LoggedPacket => ({ ...PACKET, outInterface });
const MANY: DropWitness = { ...witness(), nameOf: (index) => `cali${index}`, podBehind: () => undefined };

describe("the history of drops", () => {
  const clock = fresh(() => new FakeClock());
  const drops = fresh(() => new Drops(MANY, clock));

  it("has the last hundred of an endpoint, oldest first", async () => {
    for (let i = 0; i < MOST_OF_AN_ENDPOINT + 5; i++) {
      await clock.advance(1);
      drops.take([at(1)]);
    }
    drops.take([at(2)]);
    const times = drops.recent("cali1").map(({ time }) => Date.parse(time));
    expect(times).toHaveLength(MOST_OF_AN_ENDPOINT);
    expect(times[0]).toBe((times.at(-1) ?? 0) - MOST_OF_AN_ENDPOINT + 1);
    expect(drops.recent("cali2")).toHaveLength(1);
    expect(drops.recent("cali3")).toEqual([]);
    expect(drops.recent()).toHaveLength(MOST_OF_AN_ENDPOINT + 1);
    expect(drops.recent().at(-1)?.hostInterface).toBe("cali2");
    expect(drops.shown()).toEqual([{ direction: "ingress", reason: "denied", packets: MOST_OF_AN_ENDPOINT + 6 }]);
  });

  it("keeps within its bounds however many endpoints drop, and forgets the quietest first", async () => {
    for (let i = 0; i < 2 * MOST_IN_ALL; i++) {
      if (i % 500 === 0) await clock.advance(1000);
      drops.take([at(i)]);
    }
    expect(drops.recent()).toHaveLength(MOST_IN_ALL);
    expect(drops.recent("cali0")).toEqual([]);
    expect(drops.recent(`cali${2 * MOST_IN_ALL - 1}`)).toHaveLength(1);
    expect(drops.missed).toBe(0);
  });

  it("looks at so many packets in a second, and counts the others", async () => {
    drops.take(Array.from({ length: MOST_A_SECOND + 7 }, () => at(1)));
    expect(drops.missed).toBe(7);
    await clock.advance(1000);
    drops.take([at(1)]);
    drops.miss(3);
    expect(drops.missed).toBe(10);
    expect(drops.shown()[0]?.packets).toBe(MOST_A_SECOND + 1);
  });

  it("tells each follower until it leaves", () => {
    const few = new Drops(witness(), clock);
    const seen: string[] = [];
    const follower = ({ hostInterface }: Drop) => void seen.push(hostInterface);
    const ends = [few.follow(follower), few.follow(follower)];
    few.take([PACKET]);
    ends[0]?.();
    few.take([PACKET, { ...PACKET, prefix: "somebody else's" }]);
    expect(seen).toEqual(["caliweb", "caliweb", "caliweb"]);
  });
});
