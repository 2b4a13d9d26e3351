/** `tortiectl policy check` beside a real API server: objects that nobody enforces are found, and not once the remedy was applied. */
import type { Agent } from "../../support/agent.ts";
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode } from "../../support/kubernetes/api-server-node.ts";
import { UNREAD_DEFINITION, UNREAD_PATH, unreadPolicyOf } from "../../support/kubernetes/resources.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { BIN_DIR } from "../../support/node.ts";

// Of its own: tests beside this one would see its policies.
const cluster = shared(() => startCluster({ own: true }));

const start = (world: ApiServerNode, ...more: readonly string[]) => world.startAgent(["--max-controller-interval", "1", ...more]);

interface Checked {
  readonly exit: number | null;
  readonly stdout: string;
}

const check = (world: ApiServerNode, agent: Agent): Promise<Checked> =>
  world.node.run([`${BIN_DIR}/tortiectl`, "policy", "check", "--socket", agent.socket]);

async function says(world: ApiServerNode, agent: Agent, exit: number, words: string): Promise<void> {
  let last: Checked | undefined;
  const isSo = async () => {
    last = await check(world, agent);
    return last.exit === exit && last.stdout.includes(words);
  };
  await agent.until(`${exit} ${words}`, isSo).catch((error: unknown) => {
    throw new Error(`${last?.exit}: ${last?.stdout}`, { cause: error });
  });
}

it("a NetworkPolicy is found while policy is off, and not once the agent enforces it", async () => {
  await using world = await ApiServerNode.create(cluster, { pools: ["10.69.0.0/24"] });
  await cluster.createPolicy("web", { podSelector: {} });
  {
    await using agent = await start(world, "--policy", "off");
    await says(world, agent, 1, "policy-unenforced  there is at least 1 NetworkPolicy object");
    await agent.stop();
  }

  await using agent = await start(world);
  await says(world, agent, 0, "ok  policy is enforced");
});

it("an object of a kind that nobody reads is found, named in status and log, and not once it is gone", async () => {
  await using world = await ApiServerNode.create(cluster, { pools: ["10.69.0.0/24"] });
  await cluster.apply(UNREAD_DEFINITION);
  await using agent = await start(world);
  const deny = unreadPolicyOf("deny");
  await agent.until("the kind", async () => (await cluster.api("POST", UNREAD_PATH, deny)).status === 201);
  await says(world, agent, 1, "policy-unread  objects exist that nobody enforces: GlobalNetworkPolicy.crd.projectcalico.org (at least 1)");
  const words = "at least 1 of GlobalNetworkPolicy.crd.projectcalico.org exists and is not enforced";
  expect((await world.node.run([`${BIN_DIR}/tortiectl`, "node", "status", "--socket", agent.socket])).stdout).toContain(words);
  await agent.until("the log", () => agent.log.includes(`error ${words}: Tortie reads NetworkPolicy of networking.k8s.io/v1 only`));

  await cluster.api("DELETE", `${UNREAD_PATH}/deny`);
  await says(world, agent, 0, "ok  policy is enforced");
  await agent.until("the log", () => agent.log.includes("there are no policies of other kinds any more"));
  expect(agent.log.split(words)).toHaveLength(2);
});
