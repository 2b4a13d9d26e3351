/** Packets between attached pods of one node, sent by ping(8): each pod asks the next one, in each family that both have. */
import { spawn } from "node:child_process";
import type { Pod } from "../node.ts";
import type { Wanted } from "./world.ts";

const PING = ["/usr/bin/ping", "-n", "-q", "-c", "1", "-W", "2"];

/** @returns `sandbox to address` of each packet that had no answer */
export async function unansweredAmong(sandboxes: readonly Pod[], wanted: readonly Wanted[]): Promise<readonly string[]> {
  const paths = new Map(sandboxes.map(({ name, netnsPath }) => [name, netnsPath]));
  const attached = wanted.filter((one) => paths.has(one.sandbox) && !one.isChangedInside && !one.mayLackLink && !one.isElsewhere);
  const ways = attached.flatMap((from, place) => {
    const to = attached[(place + 1) % attached.length];
    if (to === undefined || to === from) return [];
    return to.addresses
      .filter((address) => from.addresses.some((own) => own.includes(":") === address.includes(":")))
      .map((address) => ({ sandbox: from.sandbox, path: paths.get(from.sandbox) ?? "", address }));
  });
  const answers = await Promise.all(ways.map(async (way) => ({ ...way, isAnswered: await isAnswered(way.path, way.address) })));
  return answers.filter((way) => !way.isAnswered).map(({ sandbox, address }) => `${sandbox} to ${address}`);
}

function isAnswered(netnsPath: string, address: string): Promise<boolean> {
  return new Promise((done, failed) => {
    const child = spawn("/usr/bin/nsenter", [`--net=${netnsPath}`, ...PING, address], { stdio: "ignore" });
    child.on("error", failed);
    child.on("close", (exit) => done(exit === 0));
  });
}
