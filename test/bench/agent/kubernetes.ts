/** `npm run bench -- --agent --kubernetes`: the plugin with the agent and without it, on a real API server, in one run. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Contender } from "../contender.ts";
import { setUpStage } from "../kubernetes/stage.ts";
import { compare, report } from "./compare.ts";
import { startResident } from "./resident.ts";

const NODE = "bench-node";
const SIZES = [
  { rounds: 40, burst: 60, burstRounds: 3 },
  { rounds: 0, burst: 110, burstRounds: 3 },
];

const directory = mkdtempSync(join(tmpdir(), "tortie-bench-agent-"));
const bin = resolve("dist/bin");
try {
  await using stage = await setUpStage(NODE, 110, { node: "other-node", pod: "other-pod" });
  const kubeconfig = await stage.cluster.kubeconfigFor("cni");
  const plugin = stage.plugin(NODE, kubeconfig, bin);
  const run = "/run/tortie-bench";
  const contender = (name: string, agent: "require" | "off"): Contender => {
    const socket = join(agent === "off" ? join(directory, "none") : run, "tortie.sock");
    return { ...plugin, name, netconf: JSON.stringify({ ...JSON.parse(plugin.netconf), agent, agent_socket: socket }) };
  };
  const args = ["--node-name", NODE, "--datastore-type", "kubernetes", "--kubeconfig", kubeconfig];
  await using _ = await startResident(join(bin, "tortie-node"), run, args);
  const contenders = [contender("without agent", "off"), contender("with the agent", "require")];
  for (const size of SIZES) report(await compare(contenders, size, stage.call), size);
} finally {
  rmSync(directory, { recursive: true, force: true });
}
