/** Requests to an agent by somebody else than root, and bytes that are no request. */
import { connect } from "node:net";
import type { Agent } from "./agent.ts";

/** A connection that is silent for so long has said everything. */
const LIMIT_MS = 30_000;

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
  const curl = [
    "curl",
    "-s",
    "-o",
    "/dev/null",
    "-w",
    "%{http_code}",
    "--max-time",
    "30",
    "--unix-socket",
    agent.socket,
    "-X",
    method,
    ...request,
  ];
  const run = await agent.node.run([
    "/usr/bin/setpriv",
    "--reuid",
    String(who.uid),
    "--regid",
    String(who.gid),
    ...groups,
    "--",
    "/usr/bin/env",
    ...curl,
    `http://agent/v1${path}`,
  ]);
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
