/** Runs `tortiectl policy list`. */
import type { NodePolicy, PolicyModel } from "../../../agent/api/policy-schema.ts";
import { type AgentOptions, asking } from "../ask-agent.ts";
import { columns, type Output, oneLine, printsDocument, type Terminal } from "../terminal.ts";

interface ListOptions extends AgentOptions {
  readonly output: Output;
}

const HEAD = ["POLICY", "DIRECTIONS", "ENDPOINTS", "STATE"];
const WIDE_HEAD = ["VERSION", "SELECTS"];

export function list(options: ListOptions, terminal: Terminal): Promise<number> {
  return asking(options, terminal, async (client) => {
    const { body } = await client.call("getPolicy", {});
    const { output } = options;
    if (await printsDocument(terminal, output, () => JSON.stringify(body, undefined, 2))) return 0;
    const isWide = output === "wide";
    const rows = body.policies.map((policy) => [...row(policy), ...(isWide ? wideCells(policy) : [])]);
    if (rows.length > 0) for (const line of columns([[...HEAD, ...(isWide ? WIDE_HEAD : [])], ...rows], "")) terminal.out(line);
    else terminal.err("no policies");
    printTroubles(body, terminal);
    return 0;
  });
}

function row(policy: PolicyModel): string[] {
  const { namespace, name, directions, endpoints } = policy;
  return [`${namespace}/${name}`, directions.join(",") || "-", String(endpoints.length), state(policy)];
}

function state({ problem, realised, pending }: PolicyModel): string {
  if (problem !== undefined) return "invalid";
  if (realised) return "in force";
  return pending.length === 0 ? "pending" : `pending for ${pending.length}`;
}

function wideCells(policy: PolicyModel): string[] {
  const names = policy.endpoints.map((endpoint) => endpoint.pod ?? endpoint["host-interface"]);
  return [policy["resource-version"], names.join(",") || "-"];
}

function printTroubles({ enforcement, gaps, unread, conflicts, policies }: NodePolicy, terminal: Terminal): void {
  const { red, yellow } = terminal.colors;
  for (const { namespace, name, problem } of policies)
    if (problem !== undefined)
      terminal.out(`${red("invalid")}  ${namespace}/${name} closes what it selects and opens nothing: ${oneLine(problem)}`);
  for (const { namespace, name, pending } of policies)
    for (const { pod, reason, ...endpoint } of pending)
      terminal.out(`${yellow("pending")}  ${namespace}/${name} for ${pod ?? endpoint["host-interface"]}: ${oneLine(reason)}`);
  for (const gap of gaps) terminal.out(`${yellow("gap")}  ${oneLine(gap)}`);
  for (const { address, pods } of conflicts) terminal.out(`${yellow("conflict")}  ${address} is claimed by ${pods.join(" and ")}`);
  for (const { kind, ...one } of unread) terminal.out(`${yellow("not enforced")}  ${kind}: at least ${one["at-least"]}`);
  if (enforcement === "always") terminal.out("enforcement always: a pod that no policy selects is closed too");
  if (enforcement === "never") terminal.out(`${yellow("enforcement never")}  nothing is dropped, whatever the policies say`);
}
