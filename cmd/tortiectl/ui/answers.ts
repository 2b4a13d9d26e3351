/** Runs a command of `tortiectl` and takes what it says as the answer to a question of the page. */
import { messageOf } from "../../../lib/errors/errors.ts";
import { NO_COLORS, type Terminal } from "../terminal.ts";
import { type Line, shellText } from "./questions.ts";

/** Runs one command line, as its program itself. */
export type Run = (line: Line, terminal: Terminal) => Promise<number>;

/** @returns an `Answer` (ui/contract.ts) as JSON on one line, whose numbers have all their digits */
export async function answerText(run: Run, line: Line): Promise<string> {
  const out: string[] = [];
  const notes: string[] = [];
  const status = await run(line, { out: (text) => void out.push(text), err: (text) => void notes.push(text), colors: NO_COLORS });
  const head = JSON.stringify({ command: shellText(line), status, notes });
  return `${head.slice(0, -1)},"answer":${oneDocument(out.join("\n"))}}`;
}

/** Takes the line ends out: inside of JSON's texts there are none. */
function oneDocument(text: string): string {
  try {
    JSON.parse(text);
    return text.replaceAll(/\n\s*/g, "");
  } catch (error) {
    const message = `the command printed no JSON: ${messageOf(error)}`;
    return JSON.stringify({ error: { word: "internal", message, next: null } });
  }
}
