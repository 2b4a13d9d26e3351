/** `npm run bench -- --agent --kubernetes`: the plugin with the agent and without it, on a real API server, in one run. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Contender, measure } from "../contender.ts";
import { measureCosts } from "../kubernetes/costs.ts";
import { type Stage, setUpStage } from "../kubernetes/stage.ts";
import { type Command, compare, report } from "./compare.ts";
import { startResident } from "./resident.ts";

const NODE = "bench-node";
/** Of direct mode: blocks of its own, as on another machine, so that neither finds its block changed by the other. */
const NODE_WITHOUT_AGENT = "other-node";
const SIZES = [
  { rounds: 40, burst: 60, burstRounds: 3 },
  { rounds: 0, burst: 110, burstRounds: 3 },
];

/** Pods of one count of requests, one after the other, and at once. */
const ALONE = 20;
const AT_ONCE = 60;
/** How many calls share a write of their block is a matter of when each gets processor time: a single burst says little. */
const COUNTED_BURSTS = 5;

async function reportRequests(stage: Stage, withAgent: Contender): Promise<void> {
  console.log("requests of an operation with the agent, by the audit log");
  for (const { title, audited, requests } of await measureCosts(stage, withAgent, ALONE)) {
    const kinds = [...requests].map(([name, count]) => `${name} ${count.toFixed(2)}`);
    console.log(`  ${title}, alone: ${audited.toFixed(2)} (${kinds.join(", ")})`);
  }
  const counts: Record<Command, number[]> = { ADD: [], DEL: [] };
  for (let round = 0; round < COUNTED_BURSTS; round++) {
    for (const command of ["ADD", "DEL"] as const) {
      const mark = await stage.cluster.mark();
      await Promise.all(Array.from({ length: AT_ONCE }, (_, pod) => measure(withAgent, stage.call(command, pod, `counted${round}`))));
      counts[command].push((await stage.cluster.requests(mark)).length / AT_ONCE);
    }
  }
  for (const [command, found] of Object.entries(counts)) {
    const mean = found.reduce((sum, count) => sum + count, 0) / found.length;
    console.log(
      `  ${command}, ${AT_ONCE} at once (${COUNTED_BURSTS} rounds): mean ${mean.toFixed(2)}, most ${Math.max(...found).toFixed(2)}`,
    );
  }
}

const directory = mkdtempSync(join(tmpdir(), "tortie-bench-agent-"));
const bin = resolve("dist/bin");
try {
  await using stage = await setUpStage(NODE, 110, { node: NODE_WITHOUT_AGENT, pod: "other-pod" });
  const kubeconfig = await stage.cluster.kubeconfigFor("cni");
  const plugin = stage.plugin(NODE, kubeconfig, bin);
  const run = "/run/tortie-bench";
  const contender = (name: string, agent: "require" | "off"): Contender => {
    const socket = join(agent === "off" ? join(directory, "none") : run, "tortie.sock");
    const nodename = agent === "off" ? NODE_WITHOUT_AGENT : NODE;
    return { ...plugin, name, netconf: JSON.stringify({ ...JSON.parse(plugin.netconf), nodename, agent, agent_socket: socket }) };
  };
  // Its own account, which may watch.
  const args = ["--node-name", NODE, "--datastore-type", "kubernetes", "--kubeconfig", await stage.cluster.kubeconfigFor("agent")];
  await using _ = await startResident(join(bin, "tortie-node"), run, args);
  const withAgent = contender("with the agent", "require");
  const contenders = [contender("without agent", "off"), withAgent];
  for (const size of SIZES) report(await compare(contenders, size, stage.call), size);
  await reportRequests(stage, withAgent);
} finally {
  rmSync(directory, { recursive: true, force: true });
}
