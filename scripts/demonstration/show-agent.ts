/** Shows thirty pods at once with the agent, which is killed in the middle and comes back: nothing is lost or left. */
import { join } from "node:path";
import { Agent } from "../../test/support/agent.ts";
import { localConf } from "../../test/support/conf.ts";
import { Node, type Pod } from "../../test/support/node.ts";
import { readStore } from "../../test/support/store.ts";
import type { Screen } from "./screen.ts";

const PODS = 30;

export async function showAgent(screen: Screen): Promise<void> {
  screen.section(`${PODS} pods at once, through the agent, on a node of their own`);
  await using node = await Node.create();
  const pods = await Promise.all(Array.from({ length: PODS }, () => node.addPod()));
  await using agent = await Agent.start(node);
  screen.command(`tortie-node --run-dir ${agent.runDir}`);
  const conf = localConf(node, { agent: "auto", agent_socket: agent.socket });
  const warm = await burst(node, "ADD", pods, conf);
  screen.claim(`all ${PODS} are attached`, warm.failed.length === 0, warm.failed);
  const removed = await burst(node, "DEL", pods, conf);
  screen.claim("and detached", removed.failed.length === 0, removed.failed);

  screen.section("The agent is killed in the middle of the next burst, and started again");
  const begun = agent.log.length;
  const running = burst(node, "ADD", pods, conf);
  await agent.until("some pods", () => (agent.log.slice(begun).match(/ADD done/g)?.length ?? 0) > PODS / 3);
  await agent.kill();
  await agent.restart();
  const killed = await running;
  screen.claim(`no ADD has failed: the plugins asked again, or worked by themselves`, killed.failed.length === 0, killed.failed);
  const links = (await node.ip("-j", "link", "show", "type", "veth")).map(({ ifname }) => ifname);
  screen.claim(`the node has exactly ${PODS} links`, links.length === PODS, links);

  await showEndpoints(node, agent, screen);
  const last = await burst(node, "DEL", pods, conf);
  screen.claim("all are detached", last.failed.length === 0, last.failed);
  const left = { ...(await node.leftovers()), ...(await readStore(node)) };
  screen.claim(
    "no link, route, address, handle or endpoint is left",
    Object.values(left).every((list) => list.length === 0),
    left,
  );
}

async function showEndpoints(node: Node, agent: Agent, screen: Screen): Promise<void> {
  const tortiectl = async (...args: string[]) =>
    (await node.run([join(node.binDir, "tortiectl"), "node", ...args, "--socket", agent.socket], { env: {} })).stdout;
  const list: { id: number }[] = JSON.parse(await tortiectl("endpoints", "--json"));
  screen.command("tortiectl node endpoints");
  screen.claim("the agent that came back knows the endpoints that were made by its predecessor", list.length > 0, list);
  const table = (await tortiectl("endpoints")).trimEnd().split("\n");
  for (const line of table.slice(0, SHOWN_ROWS)) screen.text(line);
  screen.text(`… and ${Math.max(0, table.length - SHOWN_ROWS)} more`);
}

/** Counts lines of the table of endpoints, its head included. */
const SHOWN_ROWS = 4;

interface Burst {
  /** Collects messages of failed calls. */
  readonly failed: readonly string[];
}

async function burst(node: Node, command: "ADD" | "DEL", pods: readonly Pod[], conf: unknown): Promise<Burst> {
  const runs = await Promise.all(
    pods.map((pod, index) => node.cni(command, { pod, conf, containerId: `demo${index}`, timeoutMs: 120_000 })),
  );
  return { failed: runs.flatMap(({ exit, stdout, stderr }) => (exit === 0 ? [] : [stdout || stderr])) };
}
