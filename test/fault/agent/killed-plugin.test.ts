/**
 * A plugin that is killed at any moment of the ADD that it hands to an agent (A-A06): the runtime's DEL leaves nothing. strace kills it
 * at the n-th system call of one kind; the agent lives on, with or without the call.
 */
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { recordsOf } from "../../support/agent-calls.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { until } from "../../support/kubernetes/until.ts";
import { Node, type Pod } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

/** The calls by which a plugin looks at the sandbox, asks the agent and prints; every so many of them is one point. */
const CALLS: readonly (readonly [calls: string, stride: number])[] = [
  ["openat", 4],
  ["connect", 1],
  ["sendto,sendmsg", 1],
  ["epoll_wait,epoll_pwait,epoll_pwait2", 1],
  ["recvfrom,recvmsg", 1],
  ["write,writev", 1],
  ["futex", 5],
];
/** No plugin that forwards comes near this many of them. */
const MANY = 100;

interface Stage {
  readonly node: Node;
  readonly agent: Agent;
  readonly pod: Pod;
  readonly conf: Record<string, unknown>;
}

/** @returns whether the ADD's plugin was killed */
async function addKilled({ node, pod, conf }: Stage, calls: string, when: number): Promise<boolean> {
  const strace = ["/usr/bin/strace", "-f", "-qq", "-o", "/dev/null", "-e", `trace=${calls}`];
  const kill = ["-e", `inject=${calls}:signal=SIGKILL:when=${when}`];
  const env = { CNI_COMMAND: "ADD", CNI_CONTAINERID: "cid1", CNI_IFNAME: "eth0", CNI_NETNS: pod.netnsPath, CNI_PATH: node.binDir };
  const run = await node.run([...strace, ...kill, join(node.binDir, "tortie")], { env, stdin: JSON.stringify(conf) });
  // strace ends itself by the signal that ended its child.
  if (run.signal === "SIGKILL") return true;
  expect({ calls, when, exit: run.exit, stdout: run.exit === 0 ? "" : run.stdout }).toEqual({ calls, when, exit: 0, stdout: "" });
  return false;
}

async function isClean({ node, agent, pod }: Stage): Promise<boolean> {
  const { allocated, handles, endpoints } = await readStore(node);
  const { links, routes } = await node.leftovers();
  const inPod = (await node.podIp(pod, "-j", "link", "show")).filter(({ ifname }) => ifname !== "lo");
  return [allocated, handles, endpoints, links, routes, inPod, recordsOf(agent)].every(({ length }) => length === 0);
}

describe("a plugin that is killed while an agent serves its ADD", () => {
  it.each(CALLS)("A-A06: leaves nothing after the runtime's DEL, killed at each of %s", async (calls, stride) => {
    await using node = await Node.create();
    await using agent = await Agent.start(node);
    const conf = localConf(node, { cniVersion: "1.1.0", ipam: dualIpam("46"), ...agent.netconf });
    const stage = { node, agent, pod: await node.addPod(), conf };
    let kills = 0;
    for (let when = 1, wasKilled = true; wasKilled && when < MANY; when += stride) {
      wasKilled = await addKilled(stage, calls, when);
      if (wasKilled) kills++;
      expect(await node.cni("DEL", { pod: stage.pod, conf })).toMatchObject({ exit: 0, stdout: "" });
      await until(`a clean node after ${calls} ${when}`, () => isClean(stage));
    }
    expect(kills).toBeGreaterThan(0);
    expect(agent.isRunning).toBe(true);
  });
});
