/** What an agent shows of identities, with a controller that writes them to a real API server: endpoints, objects, tortiectl. */
import { join } from "node:path";
import { IDENTITY_PLURAL } from "../../../lib/identity/identity-object.ts";
import { ControllerTerm } from "../../support/controller-term.ts";
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { memberAt } from "../../support/kubernetes/json.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR } from "../../support/node.ts";

const API_VERSION = "tortie.dev/v1alpha1";

const cluster = shared(startCluster);
beforeEach(() => cluster.reset());

/** An agent with an endpoint of the pod `pod`, whose network is that of the cluster. */
async function bench(flags: readonly string[] = ["--endpoint-objects"]) {
  const node = await ApiServerNode.create(cluster, { pools: ["10.60.0.0/26"] });
  const agent = await node.startAgent(flags);
  await node.pod("pod", { labels: { app: "web", "pod-template-hash": "5d9" } });
  const conf = { ...agent.netconf, kubernetes: { kubeconfig: await cluster.kubeconfigFor("agent") } };
  await node.add({ conf });
  const tortiectl = (...argv: string[]) => node.node.run([join(BIN_DIR, "tortiectl"), ...argv]);
  return {
    tortiectl: (...argv: string[]) => tortiectl(...argv, "--socket", agent.socket),
    atServer: async (...argv: string[]) => tortiectl(...argv, "--kubeconfig", await cluster.kubeconfigFor("admin")),
    async identity(): Promise<{ readonly id: number; readonly labels: readonly string[] } | undefined> {
      const { stdout } = await tortiectl("node", "endpoints", "--json", "--socket", agent.socket);
      return JSON.parse(stdout)[0]?.status.identity;
    },
    async [Symbol.asyncDispose]() {
      await agent[Symbol.asyncDispose]();
      await node[Symbol.asyncDispose]();
    },
  };
}

describe("The identity of an endpoint", () => {
  it("I6, I7, L6: is 0 until the controller has given one, follows the namespace's labels, and never keeps an ADD waiting", async () => {
    await using at = await bench();
    // No controller runs, and the ADD above has succeeded.
    await until("the labels", async () => (await at.identity()) !== undefined);
    expect(await at.identity()).toMatchObject({ id: 0, labels: expect.arrayContaining(["k8s:app=web"]) });
    expect((await at.tortiectl("identity", "list")).stderr).toContain("no identities");

    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(1);
    await until("a number", async () => ((await at.identity())?.id ?? 0) > 0);
    const first = await at.identity();
    const [stored] = await cluster.list(API_VERSION, IDENTITY_PLURAL);
    expect([Number(stored?.metadata.name), memberAt(stored?.spec, "labels")]).toEqual([first?.id, first?.labels]);
    const object = () => cluster.get(API_VERSION, "tortieendpoints", "pod", NAMESPACE);
    await until("the number in the object", async () => memberAt((await object())?.spec, "identity", "id") === first?.id);

    const path = `/api/v1/namespaces/${NAMESPACE}`;
    await cluster.api("PATCH", path, { metadata: { labels: { team: "blue" } } });
    await until("the new labels", async () => (await at.identity())?.labels.includes("k8s-namespace:namespace/team=blue") === true);
    await controller.minutes(1);
    await until("another number", async () => ![0, first?.id].includes((await at.identity())?.id));
    await cluster.api("PATCH", path, { metadata: { labels: { team: null } } });
  });

  it("is shown by tortiectl, which asks the agent or the API server", async () => {
    await using at = await bench();
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(1);
    await until("a number", async () => ((await at.identity())?.id ?? 0) > 0);
    const { id = 0, labels = [] } = (await at.identity()) ?? {};

    expect((await at.tortiectl("node", "endpoints", "-o", "wide")).stdout).toMatch(new RegExp(`IDENTITY\\n.* ${id}\\n`));
    expect((await at.tortiectl("node", "endpoint", `${NAMESPACE}/pod`)).stdout).toContain(`${id} (${labels.join(" ")})`);
    for (const ask of [at.tortiectl, at.atServer]) {
      const list = await ask("identity", "list");
      expect(list.stdout).toMatch(/^ID +STATE +LABELS\n/);
      expect(list.stdout).toMatch(new RegExp(`^${id} +active +${labels.join(" ")}$`, "m"));
      expect(JSON.parse((await ask("identity", "list", "-o", "json")).stdout)).toContainEqual({
        id,
        labels,
        state: "active",
        "created-at": expect.any(String),
      });
      expect((await ask("identity", "show", "1")).stdout).toMatch(/^state +reserved$/m);
      expect(await ask("identity", "show", "4000000000")).toMatchObject({ exit: 1, stderr: expect.stringContaining("identity-unknown") });
      expect(await ask("identity", "show", "web")).toMatchObject({ exit: 1, stderr: expect.stringContaining("identity-unknown") });
    }
    expect((await at.tortiectl("identity", "show", String(id))).stdout).toMatch(new RegExp(`^pods here +${NAMESPACE}/pod$`, "m"));
    expect((await at.atServer("identity", "show", String(id))).stdout).not.toContain("pods here");
  });

  it("is shown where policy is on, to whoever asks, and in explanations", async () => {
    await using at = await bench([]);
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(1);
    await until("a number", async () => ((await at.identity())?.id ?? 0) > 0);
    const id = (await at.identity())?.id;
    const explained = await at.tortiectl("policy", "explain", `${NAMESPACE}/pod`, "192.0.2.1", "80", "--json");
    expect(JSON.parse(explained.stdout).from).toMatchObject({ pod: `${NAMESPACE}/pod`, identity: id });
    expect((await at.tortiectl("identity", "show", String(id))).stdout).toContain("k8s:app=web");
  });

  it("is not looked at by an agent that shows none, which says how to have it", async () => {
    await using at = await bench(["--policy=off"]);
    expect(await at.identity()).toBeUndefined();
    expect((await at.tortiectl("node", "endpoints", "-o", "wide")).stdout).toMatch(/ -\n$/);
    expect(await at.tortiectl("identity", "list")).toMatchObject({ exit: 1, stderr: expect.stringContaining("identities-off") });
  });
});
