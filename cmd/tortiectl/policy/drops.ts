/** Runs `tortiectl policy drops`: the last ones, or those that come. */
import type { AgentClient } from "../../../agent/api/client.ts";
import type { PolicyDrop, PolicyDrops } from "../../../agent/api/policy-schema.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { isJsonObject, type JsonValue } from "../../../lib/json/value.ts";
import { type AgentOptions, asking } from "../ask-agent.ts";
import { endOfProcess, oneLine, type Terminal } from "../terminal.ts";

interface DropsOptions extends AgentOptions {
  readonly endpoint: string | undefined;
  readonly follow: boolean;
}

/** @returns exit status: 1 when the agent ends while it is followed */
export function drops(options: DropsOptions, terminal: Terminal): Promise<number> {
  return asking(options, terminal, async (client) => {
    const query = { endpoint: options.endpoint };
    if (options.follow) return follow(client, query, options, terminal);
    const { body } = await client.call("getPolicyDrops", { query });
    if (options.json) {
      terminal.out(JSON.stringify(body, undefined, 2));
      return 0;
    }
    for (const drop of body.drops) terminal.out(lineOf(drop, terminal));
    if (body.drops.length === 0) terminal.err("no packet of those that are remembered was dropped");
    const summary = summaryOf(body);
    if (summary !== undefined) terminal.err(summary);
    return 0;
  });
}

/** Ends with SIGINT or SIGTERM. */
async function follow(
  client: AgentClient,
  query: { readonly endpoint: string | undefined },
  { json, socket }: DropsOptions,
  terminal: Terminal,
): Promise<number> {
  const end = endOfProcess();
  for await (const line of client.lines("followPolicyDrops", { query, signal: end })) {
    const missed = missedIn(line);
    if (json) terminal.out(JSON.stringify(line));
    else if (missed === undefined) terminal.out(lineOf(dropIn(line), terminal));
    else terminal.err(`${missed} more were dropped meanwhile: this reader is too slow for them`);
  }
  if (end.aborted) return 0;
  throw new TortieError("agent-unreachable", `the agent at ${socket} has ended`);
}

function missedIn(line: JsonValue): number | undefined {
  return isJsonObject(line) && typeof line.missed === "number" ? line.missed : undefined;
}

/** Takes what the agent's own schema describes. @throws TortieError when another program answers */
function dropIn(line: JsonValue): PolicyDrop {
  if (isJsonObject(line) && typeof line.time === "string" && isJsonObject(line.source) && isJsonObject(line.destination)) {
    return line as unknown as PolicyDrop;
  }
  throw new TortieError("agent-unreachable", "what answers at the agent's socket is no agent of this version");
}

function lineOf(
  { time, pod, direction, reason, protocol, source, destination, explanation, ...drop }: PolicyDrop,
  { colors }: Terminal,
): string {
  const whose = pod ?? drop["host-interface"];
  const packet = `${protocol} ${endText(source)} to ${endText(destination)}`;
  return oneLine(`${time}  ${whose}  ${direction} ${reason}  ${packet}  ${explanation}`).replace(reason, colors.red(reason));
}

function endText({ pod, address, port, identity }: PolicyDrop["source"]): string {
  const shown = address.includes(":") && port !== undefined ? `[${address}]` : address;
  const place = port === undefined ? shown : `${shown}:${port}`;
  const facts = identity === undefined ? place : `${place}, identity ${identity}`;
  return pod === undefined ? place : `${pod} (${facts})`;
}

/** Says how many there are beyond those that are shown; `undefined`: none. */
function summaryOf({ counts, missed }: PolicyDrops): string | undefined {
  const some = counts.filter(({ dropped }) => dropped > 0);
  if (some.length === 0) return undefined;
  const texts = some.map(({ direction, reason, dropped }) => `${direction} ${reason} ${dropped}`);
  const all = `dropped on this node since its packet filter was made: ${texts.join(", ")}`;
  const isMore = missed > 0 || some.some(({ dropped, shown }) => dropped > shown);
  return isMore ? `${all}; the kernel tells of some of them only` : all;
}
