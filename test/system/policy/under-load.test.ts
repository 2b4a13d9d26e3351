/** Changes beside traffic: no wrong verdict, and no connection lost. */
import { shared } from "../../support/fixtures.ts";
import { classes, endpoints, FAMILIES, PolicyNode, reach } from "../../support/policy-node.ts";

const A = "aaaaaaaaaaaa";
const B = "bbbbbbbbbbbb";

const world = shared(() => PolicyNode.create(3));

beforeAll(async () => {
  const { prober } = world.pods[1];
  await prober.ask("serve", { protocol: "tcp", port: 80 });
  await prober.ask("serve", { protocol: "udp", port: 53 });
});

/** Packets of TCP between the first two pods, as they come to the policy's chains (priority -10), and as they leave them. */
async function packetsOfTcp(): Promise<{ readonly came: number; readonly passed: number }> {
  const { nftables } = JSON.parse(await world.nft("-j", "list", "counters", "table", "inet", "judge"));
  const count = (wanted: string): number => {
    const found = nftables.find(({ counter }: { counter?: { name: string } }) => counter?.name === wanted);
    return found.counter.packets;
  };
  return { came: count("came"), passed: count("passed") };
}

/** Begins to count from zero. */
async function watchTcp(): Promise<void> {
  const [a, b] = world.pods;
  const rules = (counter: string) =>
    FAMILIES.flatMap((family) => {
      const ip = family === 4 ? "ip" : "ip6";
      const between = ([from, to]: readonly [string, string]) =>
        `${ip} saddr ${from} ${ip} daddr ${to} meta l4proto tcp counter name ${counter}`;
      return [between([a.address[family], b.address[family]]), between([b.address[family], a.address[family]])];
    }).join("\n");
  await world.nft(
    `table inet judge
     delete table inet judge
     table inet judge {
       counter came { }
       counter passed { }
       chain before { type filter hook forward priority -20;
         ${rules("came")}
       }
       chain after { type filter hook forward priority 10;
         ${rules("passed")}
       }
     }`.replaceAll("{ }", "{\n}"),
  );
}

beforeEach(watchTcp);

describe.each(FAMILIES)("IPv%i", (family) => {
  it("N18, P20: addresses of other classes change a thousand times a second: no wrong verdict, no packet of an allowed connection lost", async () => {
    const [a, b, c] = world.pods;
    await world.replace({
      endpoints: endpoints([b, { ingress: { [A]: ["tcp 80"] } }], [a, {}], [c, {}]),
      addresses: classes([a, A], [c, B]),
    });
    const others = Array.from({ length: 200 }, (_, at) => (family === 4 ? `10.70.0.${at}` : `fd00:70::${at + 1}`));
    const churn = world.ask<number>("churn", { addresses: others, classes: [A, B, "cccccccccccc"], times: 6000 });
    let isOver = false;
    const rate = churn.finally(() => {
      isOver = true;
    });
    const wrong: string[] = [];
    const allowed = { bad: 0, count: 0 };
    const untilOver = async (work: () => Promise<void>) => {
      while (!isOver) await work();
    };
    await Promise.all([
      untilOver(async () => {
        allowed.bad += await a.prober.ask<number>("connections", { to: b.address[family], port: 80, count: 100 });
        allowed.count += 100;
      }),
      untilOver(async () => {
        const verdicts = await Promise.all([reach(c, b, "tcp", 80, family), reach(a, b, "udp", 53, family)]);
        wrong.push(...verdicts.filter((verdict) => verdict !== "timeout"));
      }),
    ]);

    expect(await rate).toBeGreaterThan(100);
    expect(wrong).toEqual([]);
    expect(allowed.bad).toBe(0);
    expect(allowed.count).toBeGreaterThan(100);
    const { came, passed } = await packetsOfTcp();
    expect(came).toBeGreaterThan(500);
    expect(passed).toBe(came);
  });
});

/** Two policies that allow the same, with other names for every class, so that each chain and set of the one goes when the other comes. */
const twins = () => {
  const [a, b, c] = world.pods;
  return [[A, B] as const, ["dddddddddddd", "eeeeeeeeeeee"] as const].map(([one, other]) => ({
    endpoints: endpoints([b, { ingress: { [one]: ["tcp 80", "tcp 90-99"] } }], [a, { egress: { [other]: "all" } }], [c, {}]),
    addresses: classes([a, one], [b, other]),
  }));
};

/** Connects again and again until the work is over. */
async function connectsBeside(work: Promise<unknown>): Promise<{ readonly bad: number; readonly count: number }> {
  const [a, b] = world.pods;
  const found = { bad: 0, count: 0 };
  let isOver = false;
  const ending = work.finally(() => {
    isOver = true;
  });
  while (!isOver) {
    found.bad += await a.prober.ask<number>("connections", { to: b.address[4], port: 80, count: 50 });
    found.count += 50;
  }
  await ending;
  return found;
}

it("loses no packet of a connection while all that a policy has is replaced a hundred times", async () => {
  const [, b, c] = world.pods;
  const [one, other] = twins();
  if (one === undefined || other === undefined) throw new Error("two policies");
  await world.replace(one);
  const replacing = async () => {
    for (let times = 0; times < 100; times++) {
      expect(await world.replace(times % 2 === 0 ? other : one)).not.toEqual([]);
      await Bun.sleep(10);
    }
  };
  const { bad, count } = await connectsBeside(replacing());
  expect(bad).toBe(0);
  const { came, passed } = await packetsOfTcp();
  expect(came).toBeGreaterThan(500);
  expect(passed).toBe(came);
  expect(count).toBeGreaterThan(100);
  expect(await reach(c, b, "tcp", 80)).toBe("timeout");
});

it("loses no connection while the table is deleted and made again, a hundred times, each in one transaction", async () => {
  const [, b, c] = world.pods;
  const [policy] = twins();
  const { bad, count } = await connectsBeside(world.ask("rebuild", { policy, times: 100 }));
  expect(bad).toBe(0);
  expect(count).toBeGreaterThan(100);
  expect(await reach(c, b, "tcp", 80)).toBe("timeout");
});
