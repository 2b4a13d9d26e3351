/** Policies as long as they may be, from a file into the kernel: each port is judged by itself, and the next policy takes the place of the last. */
import { fresh } from "../../support/fixtures.ts";
import { eventually, PolicyAgentNode, policy } from "../../support/policy-agent.ts";
import { reach } from "../../support/policy-node.ts";

const world = fresh(PolicyAgentNode.create);

const every = (count: number, portAt: (at: number) => object) => ({ ports: Array.from({ length: count }, (_, at) => portAt(at)) });
/** Values of a selector among which the client's is the last. */
const VALUES = [...Array.from({ length: 999 }, (_, at) => `value-${at}`), "client"];
const PORTS = [80, 81, 65_522, 65_535];

it("all 65,535 ports, every second one, 4,096 intervals and a selector with 1,000 values are judged as they say", async () => {
  const web = await world.serving("web", { app: "web" }, PORTS);
  const client = await world.attach("client", { labels: { app: "client" } });
  for (const [rules, answers] of [
    [[], "timeout,timeout,timeout,timeout"],
    [[every(65_535, (at) => ({ port: at + 1 }))], "ok,ok,ok,ok"],
    [[every(32_767, (at) => ({ port: 2 * at + 2 }))], "ok,timeout,ok,timeout"],
    [[{ from: [{ podSelector: { matchExpressions: [{ key: "app", operator: "In", values: VALUES }] } }] }], "ok,ok,ok,ok"],
    [[every(4_096, (at) => ({ port: 16 * at + 1, endPort: 16 * at + 8 }))], "timeout,ok,ok,timeout"],
    [[], "timeout,timeout,timeout,timeout"],
  ] as const) {
    world.write("long", policy("long", { podSelector: { matchLabels: { app: "web" } }, ingress: rules }));
    const judged = async () => (await Promise.all(PORTS.map((port) => reach(client, web, "tcp", port)))).join();
    expect(await eventually(answers, judged, 60_000)).toBe(answers);
  }
  expect(world.agent.log).not.toMatch(/ error /);
  for (const pod of [web, client]) await world.detach(pod);
}, 240_000);
