/** What the kernel tells of links and routes while something is done, in its order: lines of `ip -o monitor`. */
import { spawn } from "node:child_process";
import type { Family } from "../../lib/addresses/address.ts";
import { until } from "./kubernetes/until.ts";
import type { Node } from "./node.ts";

export async function monitored(node: Node, family: Family, work: () => Promise<void>): Promise<readonly string[]> {
  const [file = "", ...args] = node.commandLine(["/usr/sbin/ip", `-${family}`, "-o", "monitor", "link", "route"]);
  const monitor = spawn(file, args, { stdio: ["ignore", "pipe", "ignore"] });
  let text = "";
  monitor.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  // News come in order: a link that it reports shows that the monitor listens, and later that it has told everything before.
  const reach = (mark: string) =>
    until(`the monitor to tell of ${mark}`, async () => {
      await node.ip("link", "add", mark, "type", "veth", "peer", "name", `${mark}-peer`);
      await node.ip("link", "del", mark);
      return text.includes(mark);
    });
  try {
    await reach("beginning");
    await work();
    await reach("end");
  } finally {
    monitor.kill();
  }
  return text.split("\n");
}
