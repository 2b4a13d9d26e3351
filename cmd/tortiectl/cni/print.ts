/** Outcomes of `tortiectl cni` in words, or as the plugins' own JSON. */
import { count } from "../../../doctor/problem.ts";
import { contains, parsePrefix } from "../../../lib/addresses/address.ts";
import type { CniResult } from "../../../lib/cni/protocol.ts";
import { parseResult } from "../../../lib/cni/result.ts";
import type { GcOutcome, PluginAnswer } from "../../../lib/cni/runtime/chain.ts";
import type { Conflist } from "../../../lib/cni/runtime/conflist.ts";
import type { Attachment, PluginFailure } from "../../../lib/cni/runtime/plugin-call.ts";
import type { JsonObject } from "../../../lib/json/value.ts";
import { stringifyJson } from "../../../lib/json/value.ts";
import { columns, type Terminal } from "../terminal.ts";

export function printAdded(terminal: Terminal, list: Conflist, attachment: Attachment, result: JsonObject, json: boolean): void {
  if (json) {
    terminal.out(stringifyJson(result, 2));
    return;
  }
  const { dim } = terminal.colors;
  headline(terminal, list, attachment, (network) => `is attached to ${network}`);
  terminal.out(dim(`  plugins    ${list.plugins.map((plugin) => plugin.type).join(" → ")}, CNI ${list.cniVersion}`));
  terminal.out(dim(`  container  ${attachment.containerId}`));
  for (const line of resultLines(parseResult(result, list.cniVersion))) terminal.out(line);
}

function resultLines(result: CniResult): readonly string[] {
  const interfaces = result.interfaces.map((link) => [
    "interface",
    link.name,
    link.mac ?? "",
    (link.sandbox ?? "") === "" ? "host" : "pod",
  ]);
  const addresses = result.ips.map((ip) => {
    const link = ip.interface === undefined ? undefined : result.interfaces[ip.interface];
    return ["address  ", ip.address, ip.gateway === undefined ? "" : `gateway ${ip.gateway}`, link === undefined ? "" : `on ${link.name}`];
  });
  const routes = result.routes
    .filter((route) => !isBlockOf(route, result))
    .map((route) => ["route    ", route.dst, route.gw === undefined ? "" : `via ${route.gw}`]);
  const servers = (result.dns.nameservers ?? []).map((server) => ["dns      ", server]);
  return [...columns(interfaces), ...columns(addresses), ...columns(routes), ...columns(servers)];
}

/**
 * Calico's IPAM tells the block of each address as a route without a next hop (C§5.1). No such route is in the pod, so that words would
 * mislead; JSON has it.
 */
function isBlockOf({ dst, gw }: CniResult["routes"][number], { ips }: CniResult): boolean {
  const block = parsePrefix(dst);
  if (gw !== undefined || block === undefined || block.length === 0) return false;
  return ips.some(({ address }) => {
    const own = parsePrefix(address);
    return own !== undefined && contains(block, own.address);
  });
}

export function printDeleted(terminal: Terminal, list: Conflist, attachment: Attachment, hadResult: boolean, json: boolean): void {
  if (json) {
    terminal.out(stringifyJson({ ...attachmentJson(list, attachment), detached: true, hadResult }, 2));
    return;
  }
  headline(terminal, list, attachment, (network) => `is detached from ${network}`);
  if (!hadResult) terminal.out(terminal.colors.dim("  no result of an ADD was kept: the plugins had to do without prevResult"));
}

export function printChecked(terminal: Terminal, list: Conflist, attachment: Attachment, json: boolean): void {
  if (json) {
    terminal.out(stringifyJson({ ...attachmentJson(list, attachment), asMade: true }, 2));
    return;
  }
  headline(terminal, list, attachment, (network) => `is as ${network} made it`);
}

function attachmentJson({ name }: Conflist, { containerId, interfaceName, netns }: Attachment) {
  return { network: name, containerID: containerId, ifname: interfaceName, netns };
}

/** Explains codes 50 and 51 of STATUS: not available, and not available with existing containers limited too (CNI 1.1.0, section 5). */
const STATUS_CODES: Readonly<Record<number, string>> = {
  50: "not available: it cannot serve an ADD",
  51: "not available, and existing containers may have limited connectivity",
};

/**
 * @param findings of each plugin: what STATUS must not fail for, and people want to know
 * @returns exit status: 0 when every plugin is ready
 */
export function printStatus(
  terminal: Terminal,
  list: Conflist,
  answers: readonly PluginAnswer[],
  findings: readonly (readonly string[])[],
  json: boolean,
): number {
  const ready = answers.every((answer) => answer.failure === undefined);
  if (json) {
    const plugins = answers.map((answer, index) => ({ ...answerJson(answer), findings: findings[index] ?? [] }));
    terminal.out(stringifyJson({ network: list.name, ready, plugins }, 2));
    return ready ? 0 : 1;
  }
  printAnswers(terminal, answers, "ready", findings, (failure) => STATUS_CODES[failure.failure.code]);
  return ready ? 0 : 1;
}

/** @returns exit status: 0 when nothing failed */
export function printGc(terminal: Terminal, list: Conflist, outcome: GcOutcome, json: boolean): number {
  const failed = [...outcome.stale, ...outcome.answers].some((one) => one.failure !== undefined);
  if (json) {
    const valid = outcome.valid.map(({ containerID, ifname }) => ({ containerID, ifname }));
    const stale = outcome.stale.map(({ attachment, failure }) => ({
      containerID: attachment.containerId,
      ifname: attachment.interfaceName,
      ...failureJson(failure),
    }));
    terminal.out(stringifyJson({ network: list.name, valid, stale, plugins: outcome.answers.map(answerJson) }, 2));
    return failed ? 1 : 0;
  }
  const { bold, red, green, dim } = terminal.colors;
  terminal.out(`network ${bold(list.name)}: ${count(outcome.valid.length, "living attachment")}, ${outcome.stale.length} stale`);
  for (const { attachment, failure } of outcome.stale) {
    const named = `${attachment.interfaceName} of ${attachment.containerId}`;
    terminal.out(failure === undefined ? `  ${green("removed")}  ${named}` : `  ${red("failed")}   ${named}: ${failure.message}`);
  }
  if (list.disableGc) terminal.out(dim("  disableGC is true: nothing was collected"));
  else if (outcome.answers.length === 0)
    terminal.out(dim(`  GC is known from CNI 1.1.0 on, cniVersion is ${list.cniVersion}: the plugins were not asked`));
  printAnswers(terminal, outcome.answers, "collected");
  return failed ? 1 : 0;
}

function printAnswers(
  terminal: Terminal,
  answers: readonly PluginAnswer[],
  good: string,
  findings: readonly (readonly string[])[] = [],
  meaning: (failure: PluginFailure) => string | undefined = () => undefined,
): void {
  const { green, yellow, red, dim } = terminal.colors;
  const width = Math.max(0, ...answers.map((answer) => answer.plugin.type.length));
  for (const [index, { plugin, failure }] of answers.entries()) {
    const name = plugin.type.padEnd(width);
    const texts = findings[index] ?? [];
    if (failure === undefined) terminal.out(`  ${name}  ${texts.length === 0 ? green(good) : yellow(`${good}, but`)}`);
    else {
      const { code, message, details } = failure.failure;
      terminal.out(`  ${name}  ${red(meaning(failure) ?? "failed")}, code ${code}: ${message}`);
      if (details !== "") terminal.out(dim(`  ${" ".repeat(width)}  ${details}`));
    }
    for (const text of texts) terminal.out(`  ${" ".repeat(width)}  ${text}`);
  }
}

/** @param jsonVersion prints a CNI error object of this version on standard output; `undefined`: words on standard error */
export function reportPluginFailure(terminal: Terminal, failure: PluginFailure, jsonVersion: string | undefined): void {
  const { code, message, details } = failure.failure;
  if (jsonVersion !== undefined) {
    terminal.out(stringifyJson({ cniVersion: jsonVersion, code, msg: message, details: details || undefined, plugin: failure.plugin }, 2));
    return;
  }
  const { bold, red, dim } = terminal.colors;
  const where = `${failure.command} of network ${failure.network} failed in plugin ${bold(failure.plugin)} (${failure.position})`;
  terminal.err(`${red("tortiectl:")} ${where}`);
  terminal.err(`  ${dim("code")}     ${code}`);
  terminal.err(`  ${dim("message")}  ${message}`);
  if (details !== "") terminal.err(`  ${dim("details")}  ${details}`);
  if (failure.undo === undefined) return;
  if (failure.undo.length === 0) terminal.err(`  ${dim("undone")}   DEL ran on every plugin of the chain`);
  for (const left of failure.undo) terminal.err(`  ${dim("undo")}     ${red("failed")} in ${left.plugin}: ${left.failure.message}`);
}

function answerJson(answer: PluginAnswer) {
  return { type: answer.plugin.type, ...failureJson(answer.failure) };
}

function failureJson(failure: PluginFailure | undefined) {
  if (failure === undefined) return {};
  const { code, message, details } = failure.failure;
  return { code, msg: message, details: details || undefined };
}

function headline(terminal: Terminal, list: Conflist, attachment: Attachment, outcome: (network: string) => string): void {
  const { bold, green } = terminal.colors;
  const network = `network ${bold(list.name)}`;
  terminal.out(`${green("ok")} ${bold(attachment.interfaceName)} of ${attachment.netns} ${outcome(network)}`);
}
