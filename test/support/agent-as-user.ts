/** Requests to an agent by somebody else than root, and bytes that are no request. */
import { execFileSync } from "node:child_process";
import { appendFileSync, copyFileSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import type { Agent, AgentOptions } from "./agent.ts";
import type { Node } from "./node.ts";
import { words } from "./words.ts";

/** In a user namespace of one user nobody can become another. */
export const HAS_OTHER_USERS = Number(readFileSync("/proc/self/uid_map", "utf8").trim().split(/\s+/)[2]) > 65_000;
export const GROUP = 4711;

/** A connection that is silent for so long has said everything. */
const LIMIT_MS = 30_000;

/** Options of an agent whose socket belongs to GROUP. Everybody may pass to the socket: what counts is the socket. */
export function withSocketGroup({ dir }: Node): AgentOptions {
  const groups = join(dir, "group");
  copyFileSync("/etc/group", groups);
  appendFileSync(groups, `tortie-test:x:${GROUP}:\n`);
  execFileSync("chmod", ["755", dir]);
  return { args: ["--socket-group", "tortie-test"], binds: { "/etc/group": groups } };
}

/** @returns what the work makes, and those modes of its socket meanwhile that give more rights than `most` */
export async function watchingModes<T>(socket: string, most: number, work: () => Promise<T>): Promise<[T, readonly string[]]> {
  const script = `while :; do stat -c %a ${socket}* 2>/dev/null; done`;
  const watch = Bun.spawn(["bash", "-c", script], { stdout: "pipe", stderr: "ignore" });
  const made = await work();
  watch.kill();
  const modes = (await new Response(watch.stdout).text()).split("\n").filter((line) => line !== "");
  return [made, [...new Set(modes)].filter((mode) => (Number.parseInt(mode, 8) & ~most) !== 0)];
}

/** Runs curl as this user; "%{http_code}" is its last line. @returns the status, 0 where the socket could not be opened */
export async function statusAs(
  agent: Agent,
  who: { readonly uid: number; readonly gid: number; readonly groups?: readonly number[] },
  method: string,
  path: string,
  body?: unknown,
): Promise<number> {
  const groups = who.groups === undefined ? ["--clear-groups"] : ["--groups", who.groups.join(",")];
  const request = body === undefined ? [] : ["-H", "content-type: application/json", "-d", JSON.stringify(body)];
  const user = ["/usr/bin/setpriv", "--reuid", String(who.uid), "--regid", String(who.gid), ...groups, "--"];
  const curl = ["/usr/bin/env", ...words`curl -s -o /dev/null -w %{http_code} --max-time 30`, "--unix-socket", agent.socket];
  const run = await agent.node.run([...user, ...curl, "-X", method, ...request, `http://agent/v1${path}`]);
  return Number(run.stdout || 0);
}

/** Sends bytes as they are. @returns everything that came back until the agent, or the time limit, ended the connection */
export function exchangeRaw(agent: Agent, bytes: string | Uint8Array, { halfClose = true } = {}): Promise<string> {
  return new Promise((done) => {
    let answer = "";
    const socket = connect(agent.socket);
    const limit = setTimeout(() => socket.destroy(), LIMIT_MS);
    socket.on("data", (chunk) => {
      answer += chunk.toString();
    });
    // A connection that is reset is an answer, too.
    socket.on("error", () => undefined);
    socket.on("close", () => {
      clearTimeout(limit);
      done(answer);
    });
    socket.on("connect", () => {
      socket.write(bytes);
      if (halfClose) socket.end();
    });
  });
}
