/** Runs `tortiectl policy explain`. */
import type { PolicyEnd, PolicyExplanation, PolicySide } from "../../../agent/api/policy-schema.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { type AgentOptions, asking } from "../ask-agent.ts";
import { oneLine, type Terminal } from "../terminal.ts";

interface ExplainOptions extends AgentOptions {
  readonly from: string;
  readonly to: string;
  readonly port: string;
}

interface Asked extends Pick<PolicyExplanation, "protocol" | "port"> {
  readonly "port-name"?: string;
}
type Verdict = PolicyExplanation["verdicts"][number];

/** @returns exit status: 1 where one of the verdicts is to deny it */
export function explain(options: ExplainOptions, terminal: Terminal): Promise<number> {
  return asking(options, terminal, async (client) => {
    const { from, to } = options;
    const { body } = await client.call("explainPolicy", { query: { from, to, ...parsePort(options.port) } });
    if (options.json) terminal.out(JSON.stringify(body, undefined, 2));
    else print(body, options, terminal);
    return body.verdicts.some(({ verdict }) => verdict === "deny") ? 1 : 0;
  });
}

/** Longest name of a port (apimachinery, IsValidPortName). */
const MOST_PORT_NAME = 15;

/** Reads "8080", "53/udp", "http", "dns/udp" or "icmp". @throws TortieError `option-invalid` */
export function parsePort(text: string): Asked {
  if (/^icmp$/i.test(text)) return { protocol: "ICMP" };
  const [, port = "", word = "tcp"] = /^([a-z0-9]+(?:-[a-z0-9]+)*)(?:\/(tcp|udp|sctp|TCP|UDP|SCTP))?$/.exec(text) ?? [];
  const protocol = (["TCP", "UDP", "SCTP"] as const).find((one) => one === word.toUpperCase());
  if (protocol !== undefined && /[a-z]/.test(port) && port.length <= MOST_PORT_NAME) return { protocol, "port-name": port };
  if (protocol !== undefined && /^\d{1,5}$/.test(port) && Number(port) <= 65_535) return { protocol, port: Number(port) };
  throw new TortieError(
    "option-invalid",
    `PORT ${JSON.stringify(text)}: a number up to 65535 or a port's name, with /udp or /sctp behind it, or icmp is wanted`,
  );
}

function print({ from, to, protocol, port, verdicts }: PolicyExplanation, named: ExplainOptions, terminal: Terminal): void {
  const { green, red, bold, dim } = terminal.colors;
  terminal.out(`from  ${endText(from, named.from)}`);
  terminal.out(`to    ${endText(to, named.to)}`);
  const what = port === undefined ? protocol : `${protocol} port ${port}`;
  for (const one of verdicts) {
    const word = one.verdict === "allow" ? green("allowed") : red("denied");
    terminal.out(`${bold(word)}  ${what}, ${one.source} to ${one.destination}`);
    for (const side of sidesOf(one)) {
      terminal.out(
        `  ${side.direction.padEnd("ingress".length)}  ${side.verdict === "allow" ? green("allows") : red("denies")}  ${oneLine(side.reason)}`,
      );
      terminal.out(dim(`    ${aboutSide(side)}`));
    }
    for (const note of one.notes) terminal.out(`  ${dim("note")}     ${note}`);
  }
}

function endText({ pod, identity, addresses, ...end }: PolicyEnd, named: string): string {
  const facts = [end["host-interface"], ...addresses, ...(identity === undefined ? [] : [`identity ${identity}`])];
  return `${pod ?? named} (${facts.filter((fact) => fact !== undefined && fact !== (pod ?? named)).join(", ")})`.replace(" ()", "");
}

function sidesOf({ egress, ingress }: Verdict): readonly PolicySide[] {
  return [egress, ingress].filter((side) => side !== undefined);
}

function aboutSide({ workload, policies, peer, direction, ...side }: PolicySide): string {
  const rule = side["decided-by"];
  const decided = rule === undefined || rule.rule === 0 ? [] : [`rule ${rule.rule} of ${rule.direction} in ${rule.policy}`];
  const selected = policies.length === 0 ? "no policy selects it" : `selected by ${policies.join(", ")}`;
  const other = `${direction === "egress" ? "to" : "from"} ${peer}, class ${side["peer-class"]}`;
  return [workload, selected, ...decided, other].join("; ");
}
