/** Runs `tortiectl connectivity serve` and `probe`: what a test starts in its pods. */
import { appendFileSync } from "node:fs";
import { READY } from "../../../doctor/connectivity/children.ts";
import { answerAll } from "../../../doctor/connectivity/probe/ask.ts";
import { serveProbes } from "../../../doctor/connectivity/probe/serve.ts";
import { type ProbeRequest, parseRequest } from "../../../doctor/connectivity/question.ts";
import { messageOf, TortieError } from "../../../lib/errors/errors.ts";
import type { Terminal } from "../terminal.ts";

interface ServeOptions {
  readonly name: string;
  readonly ports: string;
  readonly untilInputEnds: boolean;
}

/** Answers until it is told to end, or its standard input ends, which is when the process is gone that holds the other end. */
export async function serve({ name, ports, untilInputEnds }: ServeOptions, terminal: Terminal): Promise<number> {
  const numbers = ports.split(",").map(Number);
  const isPort = (port: number) => Number.isInteger(port) && port > 0 && port < 65_536;
  if (!numbers.every(isPort)) throw new TortieError("option-invalid", `--ports ${ports} wants numbers of ports, separated by commas`);
  await serveProbes(name, numbers);
  terminal.out(READY);
  await new Promise<void>((done) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => done());
    if (!untilInputEnds) return;
    process.stdin.on("end", done).on("error", done).resume();
  });
  return 0;
}

/** Tries what is asked, and writes the reply to a file or to standard output. */
export async function probe(
  { request, reply }: { readonly request: string; readonly reply: string | undefined },
  terminal: Terminal,
): Promise<number> {
  const text = JSON.stringify(await answerAll(requestIn(request)));
  if (reply === undefined) terminal.out(text);
  else appendFileSync(reply, text);
  return 0;
}

function requestIn(text: string): ProbeRequest {
  try {
    return parseRequest(text);
  } catch (error) {
    throw new TortieError("option-invalid", `the request of a probe is not understood: ${messageOf(error)}`, {
      next: "let tortiectl connectivity test start its probes, with an image of the same version",
    });
  }
}
