/** Pods of two nodes and policy: what `tortiectl policy explain` says of them on each of three nodes, and what passes, with real agents. */
import { shared } from "../../support/fixtures.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR } from "../../support/node.ts";
import { type Machine, NAMESPACE, ThreeNodes, type WorldPod } from "../../support/three-nodes.ts";

const POLICIES = `/apis/networking.k8s.io/v1/namespaces/${NAMESPACE}/networkpolicies`;
const LIMIT_MS = 60_000;

const cluster = shared(startCluster);
const world = shared(() => ThreeNodes.create(cluster));
let client: WorldPod;
let web: WorldPod;
beforeAll(async () => {
  await world.pool("pool4", "10.70.0.0/24", { vxlanMode: "CrossSubnet" });
  await world.pool("pool6", "fd70::/112", { vxlanMode: "CrossSubnet" });
  const [first, , third] = world.three;
  for (const machine of world.three) await machine.startAgent();
  const labelled = (app: string) => ({ labels: { app }, ports: [{ name: "http", protocol: "TCP", containerPort: 8080 }] });
  [client, web] = [await world.addPod(first, "client", {}, labelled("client")), await world.addPod(third, "web", {}, labelled("web"))];
  await until("the way to the other node", async () => (await world.connect(client, web.ipv4)) === "web", LIMIT_MS);
});

const apply = (name: string, spec: object) => cluster.createPolicy(name, { ...spec }, NAMESPACE);

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

afterEach(async () => {
  expect((await cluster.api("DELETE", POLICIES)).status).toBe(200);
});

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
});

it("policy explain knows what a pod of another node calls its ports, where a rule names one, and takes the name in place of a number", async () => {
  await apply("web", { podSelector: { matchLabels: { app: "web" } }, ingress: [{ ports: [{ port: "http" }] }] });

  for (const port of ["8080", "http"]) {
    for (const text of await explained(port)) {
      expect(text).toMatch(/^0\n/);
      expect(text).toContain("allowed  TCP port 8080");
      expect(text).toContain(`rule 1 of ${NAMESPACE}/web allows port 8080/TCP from ${NAMESPACE}/client`);
      expect(text).not.toContain("note");
    }
  }
  expect(await world.connect(client, web.ipv4)).toBe("web");

  for (const text of await explained("8081")) {
    expect(text).toMatch(/^1\n/);
    expect(text).toContain(`rule 1 allows "http"/TCP (8080 in ${NAMESPACE}/web) from everybody`);
    expect(text).not.toContain("note");
  }
  for (const text of await explained("grpc")) expect(text).toContain(`port "grpc" of ${NAMESPACE}/web: it names no port of TCP so`);
});

it("A7: a pod whose annotation is late counts as any address until then, and its connection comes with a retransmission", async () => {
  const egress = [{ to: [{ podSelector: { matchLabels: { app: "web" } } }] }];
  await apply("client", { podSelector: { matchLabels: { app: "client" } }, policyTypes: ["Egress"], egress });
  const path = `/api/v1/namespaces/${NAMESPACE}/pods/web`;
  const annotate = (annotations: object) =>
    cluster.api("PATCH", path, { metadata: { annotations } }).then(({ status }) => expect(status).toBe(200));
  const { annotations = {} } = (await cluster.get("v1", "pods", "web", NAMESPACE))?.metadata ?? {};
  expect(Object.keys(annotations)).toContain("cni.projectcalico.org/podIPs");
  await annotate(Object.fromEntries(Object.keys(annotations).map((name) => [name, null])));
  const [first] = world.three;
  await until("its refusal", async () => (await policy(first, "explain", `${NAMESPACE}/client`, web.ipv4, "8080")).exit === 1, LIMIT_MS);
  // The packet filter hears of it a moment after the explanation does.
  expect(await policy(first, "wait")).toMatchObject({ exit: 0 });

  const connecting = world.connect(client, web.ipv4);
  const drops = async () => (await policy(first, "drops", `${NAMESPACE}/client`)).stdout;
  await until("the SYN's drop", async () => (await drops()).includes(`${web.ipv4}:8080`), LIMIT_MS);
  await annotate(annotations);
  expect(await connecting).toBe("web");
});
