/** What `tortiectl policy explain` says of pods of two nodes, asked on each of these and on a third one, with real agents and packets. */
import { shared } from "../../support/fixtures.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR } from "../../support/node.ts";
import { type Machine, NAMESPACE, ThreeNodes, type WorldPod } from "../../support/three-nodes.ts";

const POLICIES = `/apis/networking.k8s.io/v1/namespaces/${NAMESPACE}/networkpolicies`;
const LIMIT_MS = 60_000;

const cluster = shared(startCluster);
let world: ThreeNodes;
let client: WorldPod;
let web: WorldPod;
afterAll(() => world?.[Symbol.asyncDispose]());
beforeAll(async () => {
  world = await ThreeNodes.create(cluster);
  await world.pool("pool4", "10.70.0.0/24", { vxlanMode: "CrossSubnet" });
  await world.pool("pool6", "fd70::/112", { vxlanMode: "CrossSubnet" });
  const [first, , third] = world.three;
  for (const machine of world.three) await machine.startAgent();
  [client, web] = [await world.addPod(first, "client"), await world.addPod(third, "web")];
  for (const name of ["client", "web"]) {
    const path = `/api/v1/namespaces/${NAMESPACE}/pods/${name}`;
    await cluster.api("PATCH", path, { metadata: { labels: { app: name } } }, "application/merge-patch+json");
  }
  await until("the way to the other node", async () => (await world.connect(client, web.ipv4)) === "web", LIMIT_MS);
}, 120_000);

async function apply(name: string, spec: object): Promise<void> {
  const object = { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata: { name, namespace: NAMESPACE }, spec };
  expect((await cluster.api("POST", POLICIES, object)).status).toBe(201);
}

function policy({ host, agent }: Machine, ...args: readonly string[]) {
  return host.run([`${BIN_DIR}/tortiectl`, "policy", ...args, "--socket", agent.socket]);
}

/** What every agent answers, in the order of the nodes; each has seen everything before. */
async function explained(port: string): Promise<readonly string[]> {
  const answers = world.machines.map(async (machine) => {
    await policy(machine, "wait");
    const { exit, stdout, stderr } = await policy(machine, "explain", `${NAMESPACE}/client`, web.ipv4, port);
    return `${exit}\n${stdout}${stderr}`;
  });
  return Promise.all(answers);
}

it("policy explain judges both ends with policy and rule on the nodes of the pods and on every other one, as packets find them", async () => {
  await apply("client", {
    podSelector: { matchLabels: { app: "client" } },
    policyTypes: ["Egress"],
    egress: [{ to: [{ podSelector: { matchLabels: { app: "web" } } }] }],
  });
  await apply("web", {
    podSelector: { matchLabels: { app: "web" } },
    ingress: [
      { from: [{ podSelector: { matchLabels: { app: "nobody" } } }] },
      { from: [{ podSelector: { matchLabels: { app: "client" } } }], ports: [{ protocol: "TCP", port: 8080 }] },
    ],
  });

  for (const text of await explained("8080")) {
    expect(text).toMatch(/^0\n/);
    expect(text).toMatch(/egress +allows/);
    expect(text).toContain(`${NAMESPACE}/client; selected by ${NAMESPACE}/client; rule 1 of egress in ${NAMESPACE}/client`);
    expect(text).toMatch(/ingress +allows/);
    expect(text).toContain(`${NAMESPACE}/web; selected by ${NAMESPACE}/web; rule 2 of ingress in ${NAMESPACE}/web`);
    expect(text).not.toContain("note");
  }
  expect(await world.connect(client, web.ipv4)).toBe("web");

  for (const text of await explained("8081")) {
    expect(text).toMatch(/^1\n/);
    expect(text).toMatch(/egress +allows/);
    expect(text).toMatch(/ingress +denies/);
    expect(text).toContain(`${NAMESPACE}/web; selected by ${NAMESPACE}/web; from ${NAMESPACE}/client`);
    expect(text).not.toContain("note");
  }
}, 120_000);
