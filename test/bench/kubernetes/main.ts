/**
 * `npm run bench -- --kubernetes`: every bar of a real API server in one run: the plugin with the agent, without it, and Calico's plugins
 * beside both. Calls of the contenders alternate, and only ratios mean anything. Argument: the folder of Calico's `calico`.
 */
import { copyFileSync, linkSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BIN_DIR } from "../../support/node.ts";
import { type Bar, reportBars } from "../bars.ts";
import { COMMANDS, type Command, compare, measureBurst, ratio, report, warmUp } from "../compare.ts";
import type { Contender } from "../contender.ts";
import { RUN_DIRECTORY, startResident } from "../resident.ts";
import { row } from "../statistics.ts";
import { linkWholeProgram } from "../whole-program.ts";
import { measureCosts } from "./costs.ts";
import { type Stage, setUpStage } from "./stage.ts";

const NODE = "bench-node";
/** Blocks of their own, as on other machines, so that none finds its block changed by another. */
const DIRECT = { node: "direct-node", pod: "direct-pod" };
const CALICO = { node: "calico-node", pod: "calico-pod" };
const SMALL = { rounds: 30, burst: 60, burstRounds: 3 };
const LARGE = { rounds: 0, burst: 110, burstRounds: 3 };
const WARM_UP = { size: SMALL.burst, bursts: 8 };
/** Pods of one count of requests, one after the other. */
const ALONE = 10;
/** How many calls share a write of their block is a matter of when each gets processor time: a single burst says little. */
const COUNTED_BURSTS = 5;
const WIDTHS = [64, 9, 9];

await bench(process.argv[2] ?? "");

async function bench(calicoFolder: string): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "tortie-bench-"));
  using whole = linkWholeProgram(BIN_DIR);
  try {
    copyFileSync(join(calicoFolder, "calico"), join(directory, "calico"));
    linkSync(join(directory, "calico"), join(directory, "calico-ipam"));
    await using stage = await setUpStage(NODE, LARGE.burst, DIRECT, CALICO);
    const account = await stage.cluster.kubeconfigFor("cni");
    // Its own account, which may watch.
    const args = ["--node-name", NODE, "--datastore-type", "kubernetes", "--kubeconfig", await stage.cluster.kubeconfigFor("agent")];
    await using resident = await startResident(RUN_DIRECTORY, args);
    const agent = { ...configured(stage.plugin(NODE, account, BIN_DIR), { agent: "require" }), name: "with the agent", resident };
    // As on a machine without one: beside an agent it would tell that of its attachments, and the agent would end them once more.
    const elsewhere = { agent: "off", agent_socket: join(directory, "none", "tortie.sock") };
    const direct = { ...configured(stage.plugin(DIRECT.node, account, whole.directory), elsewhere), name: "without agent" };
    const calico = { ...stage.calico(CALICO.node, account, directory), name: "Calico" };

    await reportRequests(stage, [direct, agent, calico]);
    await warmUp(agent, WARM_UP, stage.call);
    const small = await compare([direct, agent, calico], SMALL, stage.call);
    report(small, SMALL);
    const large = await compare([direct, agent], LARGE, stage.call);
    report(large, LARGE);

    const bars: Bar[] = [];
    const single = { ADD: 0.42, DEL: 0.45 };
    const burst = { ADD: 0.15, DEL: 0.16 };
    for (const command of COMMANDS) {
      const measured = ratio(small, [agent, direct], ({ single: times }) => times[command]);
      bars.push({ name: `${command} alone, of direct mode`, most: single[command], measured });
    }
    for (const [times, { burst: count }] of [
      [small, SMALL],
      [large, LARGE],
    ] as const) {
      for (const command of COMMANDS) {
        const measured = ratio(times, [agent, direct], ({ burst: all }) => all[command]);
        bars.push({ name: `${count} ${command}s at once, of direct mode`, most: burst[command], measured });
      }
      const requests = await requestsAtOnce(stage, agent, count);
      for (const command of COMMANDS) {
        bars.push({ name: `requests of each of ${count} ${command}s at once`, most: 2.2, measured: requests[command] });
      }
    }
    const ofCalico = (contender: Contender, command: Command) => ({
      single: ratio(small, [contender, calico], (times) => times.single[command]),
      burst: ratio(small, [contender, calico], (times) => times.burst[command]),
    });
    for (const command of COMMANDS) {
      const { single: alone, burst: atOnce } = ofCalico(agent, command);
      console.log(row([`with the agent, of Calico: ${command} alone, ${SMALL.burst} at once`, alone, atOnce], WIDTHS));
    }
    for (const command of COMMANDS) {
      const { single: alone, burst: atOnce } = ofCalico(direct, command);
      bars.push({ name: `direct mode: ${command} alone, of Calico's plugins`, most: 1 / 4, measured: alone });
      bars.push({ name: `direct mode: ${SMALL.burst} ${command}s at once, of Calico's plugins`, most: 1 / 3.5, measured: atOnce });
    }
    bars.push({ name: "20, 60, 110 pods of a real kubelet, Ready and gone", most: 1.15, measured: "test:kubelet" });
    reportBars("a real API server", bars);
  } finally {
    rmSync(directory, { recursive: true, force: true });
    rmSync(RUN_DIRECTORY, { recursive: true, force: true });
  }
}

function configured(plugin: Contender, keys: Readonly<Record<string, string>>): Contender {
  return { ...plugin, netconf: JSON.stringify({ ...JSON.parse(plugin.netconf), ...keys }) };
}

/** Of operations that come one after the other. */
async function reportRequests(stage: Stage, contenders: readonly Contender[]): Promise<void> {
  console.log(`\n${row(["requests of an operation alone, and connections", "requests", "connects"], WIDTHS)}`);
  for (const contender of contenders) {
    // The node's first block is claimed by then.
    for (const command of COMMANDS) await measureBurst(contender, 1, (pod) => stage.call(command, pod, "first"));
    for (const { title, audited, connections } of await measureCosts(stage, contender, ALONE)) {
      console.log(row([`  ${title}: ${contender.name}`, audited, connections], WIDTHS));
    }
  }
}

/** Requests of each call, by the audit log. */
async function requestsAtOnce(stage: Stage, contender: Contender, size: number): Promise<Readonly<Record<Command, number>>> {
  const counts: Record<Command, number> = { ADD: 0, DEL: 0 };
  for (let round = 0; round < COUNTED_BURSTS; round++) {
    for (const command of COMMANDS) {
      const mark = await stage.cluster.mark();
      await measureBurst(contender, size, (pod) => stage.call(command, pod, `counted${size}-${round}`));
      counts[command] += (await stage.cluster.requests(mark)).length / size / COUNTED_BURSTS;
    }
  }
  return counts;
}
