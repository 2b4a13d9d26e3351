/** Permissions that go while their connection runs: it stops at once, and does not come back. */
import { shared } from "../../support/fixtures.ts";
import { until } from "../../support/kubernetes/until.ts";
import { classes, endpoints, FAMILIES, type Family, type Place, PolicyNode } from "../../support/policy-node.ts";

const A = "aaaaaaaaaaaa";

const world = shared(() => PolicyNode.create(2));

beforeAll(async () => {
  await world.pods[1].prober.ask("sender", { port: 9000, every: 0.005 });
});
beforeEach(() => world.ask("remove"));

let streams = 0;

/** Waits until nothing more has come for a second. */
async function settled(place: Place, name: string): Promise<number> {
  for (let before = -1; ; ) {
    const now = await place.prober.ask<number>("got", { name });
    if (now === before) return now;
    before = now;
    await Bun.sleep(1000);
  }
}

describe.each(FAMILIES)("IPv%i", (family: Family) => {
  it.each(["egress of the client", "ingress of the server"])(
    "P19: stops a TCP stream when its permission goes (%s), also when its conntrack entry is deleted and the server keeps sending",
    async (side) => {
      const [a, b] = world.pods;
      const isEgress = side.startsWith("egress");
      const policy = (permissions: Record<string, readonly string[]>) => ({
        endpoints: isEgress ? endpoints([a, { egress: permissions }], [b, {}]) : endpoints([a, {}], [b, { ingress: permissions }]),
        addresses: classes([a, A], [b, A]),
      });
      await world.replace(policy({ [A]: ["tcp 9000"] }));
      const name = `stream${++streams}`;
      expect(await a.prober.ask("opens", { name, to: b.address[family], port: 9000 })).toBe("ok");
      await until("the stream to flow", async () => (await a.prober.ask<number>("got", { name })) > 20_000);

      await world.apply({ endpoints: policy({}).endpoints });
      const stopped = await settled(a, name);
      const direction = isEgress ? "egress" : "ingress";
      expect(await world.dropped()).toMatchObject({ [`${direction}-denied`]: expect.any(Number) });

      expect(await world.ask<number>("deleteFlows", { addresses: [a.address[family]] })).toBeGreaterThanOrEqual(1);
      const without = `${isEgress ? "ingress" : "egress"}-tcp-without-syn`;
      await until("segments to be dropped", async () => ((await world.dropped())[without] ?? 0) >= 2);
      expect(await settled(a, name)).toBe(stopped);
      expect((await world.connections("dport=9000")).filter((line) => line.includes("ESTABLISHED"))).toEqual([]);
    },
  );

  it("ends a UDP stream that only flows back when its entry is deleted", async () => {
    const [a, b] = world.pods;
    const policy = (permissions: Record<string, readonly string[]>) => ({
      endpoints: endpoints([a, { ingress: {}, egress: permissions }], [b, {}]),
      addresses: classes([b, A]),
    });
    const port = 7000 + family;
    await b.prober.ask("udp_sender", { port, every: 0.02 });
    await world.replace(policy({ [A]: [`udp ${port}`] }));
    const name = `stream${++streams}`;
    await a.prober.ask("udp_stream", { name, to: b.address[family], port, every: 0 });
    const got = () => a.prober.ask<number>("got", { name });
    await until("the stream to flow", async () => (await got()) > 500);

    await world.apply({ endpoints: policy({}).endpoints });
    const before = await got();
    await until("the stream to flow on", async () => (await got()) > before + 500);

    const flows = await world.ask<Record<string, unknown>[]>("flows", { addresses: [a.address[family]] });
    expect(flows).toContainEqual(
      expect.objectContaining({
        family,
        protocol: 17,
        original: expect.objectContaining({ destinationPort: port }),
      }),
    );
    await world.ask("deleteFlows", { addresses: [a.address[family]] });
    await settled(a, name);
    expect((await world.dropped())["ingress-denied"]).toBeGreaterThan(0);
    expect(await world.connections(`dport=${port}`)).toEqual([]);
  });
});
