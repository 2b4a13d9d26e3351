/** The reference plugin bandwidth behind ours in a chain, beside policy: a real agent, both plugins' traffic control and filter in one kernel. */
import { join } from "node:path";
import { fresh } from "../../support/fixtures.ts";
import { REFERENCE_PLUGINS_DIR } from "../../support/node.ts";
import { type AttachedPod, eventually, PolicyAgentNode, policy } from "../../support/policy-agent.ts";
import { reach } from "../../support/policy-node.ts";

const world = fresh(PolicyAgentNode.create);

const RATE = 8_000_000;

async function bandwidth(command: "ADD" | "DEL", { pod, containerId, hostInterface, address }: AttachedPod): Promise<void> {
  const interfaces = [{ name: hostInterface }, { name: "eth0", sandbox: pod.netnsPath }];
  const prevResult = { cniVersion: "1.0.0", interfaces, ips: [{ address: `${address[4]}/32`, interface: 1 }] };
  const limits = { ingressRate: RATE, ingressBurst: RATE, egressRate: RATE, egressBurst: RATE };
  const stdin = JSON.stringify({ cniVersion: "1.0.0", name: "net1", type: "bandwidth", ...limits, prevResult });
  const env = { CNI_COMMAND: command, CNI_CONTAINERID: containerId, CNI_NETNS: pod.netnsPath, CNI_IFNAME: "eth0", CNI_PATH: "/" };
  const { exit, stdout, stderr } = await world.node.run([join(REFERENCE_PLUGINS_DIR, "bandwidth")], { stdin, env });
  expect({ exit, stderr, stdout: exit === 0 ? "" : stdout }).toEqual({ exit: 0, stderr: "", stdout: "" });
}

/** Rates in bytes a second of what the pod receives, and of all that pods send. */
async function rates({ hostInterface }: AttachedPod): Promise<readonly number[]> {
  const { stdout } = await world.node.run(["/usr/sbin/tc", "-j", "qdisc", "show"]);
  const qdiscs = JSON.parse(stdout) as readonly { kind: string; dev: string; options: { rate?: number } }[];
  return qdiscs.flatMap(({ kind, dev, options }) =>
    kind === "tbf" && (dev === hostInterface || dev.startsWith("bwp")) ? [options.rate ?? 0] : [],
  );
}

const hostEnds = async () => (await world.node.leftovers()).links;

it("N17: keeps its limits and leaves the policy its verdicts, and both are clean after DEL and once more", async () => {
  const client = await world.attach("client", { labels: { app: "client" } });
  world.write("allow", policy("allow", { podSelector: { matchLabels: { app: "web" } }, ingress: [{ ports: [{ port: 80 }] }] }));
  const links = await hostEnds();
  for (let round = 0; round < 2; round++) {
    const web = await world.serving("web", { app: "web" }, [80, 81]);
    await bandwidth("ADD", web);
    expect(await rates(web)).toEqual([RATE / 8, RATE / 8]);
    expect(await eventually("timeout", () => reach(client, web, "tcp", 81))).toBe("timeout");
    expect(await Promise.all([reach(client, web, "tcp", 80), reach(web, client, "tcp", 80)])).toEqual(["ok", "refused"]);
    await bandwidth("DEL", web);
    await world.detach(web);
    expect(await hostEnds()).toEqual(links);
    expect(await world.known()).toEqual([client.hostInterface]);
  }
  await world.detach(client);
});
