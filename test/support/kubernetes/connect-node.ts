/**
 * The API server inside a pretend node's network namespace (test/support/node.ts), at the same 127.0.0.1:<port> as outside, without a
 * link between the two: a socket file is not bound to a network namespace, so one socat on either side of it is enough.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Node } from "../node.ts";
import { isRunning, pause, readPid, startProcess } from "./process.ts";

const SOCAT = "/usr/bin/socat";
const NSENTER = "/usr/bin/nsenter";
const LISTEN_LIMIT_MS = 10_000;

/** Something that listens on 127.0.0.1 around the nodes: a cluster, or a fault proxy. */
export interface Listener {
  readonly port: number;
  /** The cluster's directory: processes whose ids are in its *.pid files end with the cluster. */
  readonly dir: string;
}

/**
 * Makes 127.0.0.1:<port> of the surrounding namespace reachable at the same address on `node`, until the node is disposed of.
 *
 * @returns id of the process that listens on the node: once it has ended, connections are refused by the kernel, and open ones stay
 */
export async function connectNode(node: Node, { port, dir }: Listener): Promise<number> {
  const isRead = node.holders.size > 0;
  if (!isRead) node.excuse("the judge does not read the server's store", "not-granted", "unasked", "not-released", "miscounted");
  const socket = join(dir, `port-${port}`);
  const log = join(dir, "socat.log");
  const pidFile = forwarderPidFile({ port, dir });
  let outside = readPid(pidFile);
  if (outside === undefined || !isRunning(outside)) {
    outside = startProcess([SOCAT, `UNIX-LISTEN:${socket},fork,unlink-early,backlog=256`, `TCP:127.0.0.1:${port},nodelay`], log, pidFile);
  }
  const listen = `TCP-LISTEN:${port},bind=127.0.0.1,fork,reuseaddr,nodelay,backlog=256`;
  const inside = startProcess([NSENTER, `--net=${node.netnsPath}`, SOCAT, listen, `UNIX-CONNECT:${socket}`], log);
  const deadline = Date.now() + LISTEN_LIMIT_MS;
  while (!isListening(inside, port) || !readFileSync("/proc/net/unix", "utf8").includes(`${socket}\n`)) {
    if (Date.now() > deadline || !isRunning(inside) || !isRunning(outside)) {
      throw new Error(`port ${port} is not reachable on ${node.name}: ${readFileSync(log, "utf8")}`);
    }
    await pause(3);
  }
  return inside;
}

/** Where the process id of the socat outside is. */
export function forwarderPidFile({ port, dir }: Listener): string {
  return join(dir, `socat-${port}.pid`);
}

/** State 0A is LISTEN (include/net/tcp_states.h); address and port are in hexadecimal, the address in the order of the machine. */
function isListening(pid: number, port: number): boolean {
  const local = ` 0100007F:${port.toString(16).toUpperCase().padStart(4, "0")} 00000000:0000 0A `;
  try {
    return readFileSync(`/proc/${pid}/net/tcp`, "utf8").includes(local);
  } catch {
    return false;
  }
}
