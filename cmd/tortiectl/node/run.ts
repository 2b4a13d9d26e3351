/** Runs `tortiectl node …`: one function a subcommand, each one read over the typed client. */

import type { AgentClient } from "../../../agent/api/client.ts";
import type { EndpointModel } from "../../../agent/api/endpoint-schema.ts";
import type { StatusResponse } from "../../../agent/api/node.ts";
import { formatAddress, parseAddress } from "../../../lib/addresses/address.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { type AgentOptions, asking } from "../ask-agent.ts";
import { columns, type Output, printsDocument, type Terminal } from "../terminal.ts";

interface EndpointOptions extends AgentOptions {
  readonly id: string;
}

interface ListOptions extends AgentOptions {
  readonly output: Output;
  readonly watch: boolean;
}

interface LevelOptions extends AgentOptions {
  /** `undefined`: it is shown. */
  readonly level: string | undefined;
}

interface HealthOptions extends AgentOptions {
  /** Asks whether the process is alive, not whether it can add pods. */
  readonly live: boolean;
}

/** Limits how much of an endpoint's history is shown. */
const HISTORY = 20;

/** @returns exit status: 0, and 1 when the agent is not ready */
export function status(options: ListOptions, terminal: Terminal): Promise<number> {
  return asking(options, terminal, async (client) => {
    const { body: health } = await client.call("getHealthz", {});
    if (!(await printsDocument(terminal, options.output, () => json(health)))) printHealth(health, terminal);
    return health.ready ? 0 : 1;
  });
}

function printHealth({ state, phase, ready, checks, waits, findings }: StatusResponse, { out, colors }: Terminal): void {
  const { bold, green, yellow, red, dim } = colors;
  const paint = { ok: green, warning: yellow, failure: red, disabled: (text: string) => text };
  out(`${bold("tortie-node")} is ${paint[state](state)}, phase ${phase}${ready ? "" : ", not ready"}`);
  for (const line of columns(checks.map((one) => [one.state, one.name, one.message, `since ${one.since}`]))) out(line);
  for (const { what, since } of waits) out(`  ${yellow("waits")} for ${what}, since ${since}`);
  for (const finding of findings) out(`  ${yellow("found")} ${finding}`);
  for (const { name, next } of checks) if (next !== undefined) out(`  ${dim("next")}  ${name}: ${next}`);
}

/**
 * Says in one word for probes how the agent is, with the reasons against it. @returns exit status: 1 when the agent is not what is asked
 * for, or does not answer
 */
export function health(options: HealthOptions, terminal: Terminal): Promise<number> {
  return asking(options, terminal, async (client) => {
    const { body } = await client.call("getHealthz", {});
    const [word, isIt] = options.live ? (["live", body.live] as const) : (["ready", body.ready] as const);
    if (options.json) terminal.out(json({ [word]: isIt, state: body.state, phase: body.phase }));
    else terminal.out(isIt ? word : `not ${word}: phase ${body.phase}`);
    for (const { name, state, message } of isIt || options.json ? [] : body.checks)
      if (state === "failure") terminal.out(`${name}: ${message}`);
    return isIt ? 0 : 1;
  });
}

export function endpoints(options: ListOptions, terminal: Terminal): Promise<number> {
  return asking(options, terminal, async (client) => {
    const { body: list } = await client.call("listEndpoints", {});
    if (await printsDocument(terminal, options.output, () => json(list))) return 0;
    const isWide = options.output === "wide";
    const head = ["ID", "STATE", "ADDRESSES", "INTERFACE", "WORKLOAD", "CONTAINER", ...(isWide ? WIDE_COLUMNS : [])];
    const rows = list.map((one) => [...row(one), ...(isWide ? wideCells(one) : [])]);
    for (const line of columns([head, ...rows], "")) terminal.out(line);
    if (list.length === 0) terminal.err("no endpoints");
    return 0;
  });
}

export function endpoint(options: EndpointOptions, terminal: Terminal): Promise<number> {
  return asking(options, terminal, async (client) => {
    const params = { id: await nameFor(options.id, client) };
    const { body: found } = await client.call("getEndpoint", { params });
    const { body: log } = await client.call("getEndpointLog", { params });
    if (options.json) {
      terminal.out(json({ ...found, log }));
      return 0;
    }
    for (const line of columns(facts(found), "")) terminal.out(line);
    terminal.out(terminal.colors.bold("history"));
    for (const line of columns(log.slice(0, HISTORY).map((one) => [one.timestamp, one.code, one.state, one.message]))) terminal.out(line);
    return 0;
  });
}

export function config(options: AgentOptions, terminal: Terminal): Promise<number> {
  return asking(options, terminal, async (client) => {
    const { body: found } = await client.call("getConfig", {});
    if (options.json) {
      terminal.out(json(found));
      return 0;
    }
    const { addressing, ...rest } = found.status;
    const facts = Object.entries(rest).map(([name, value]) => [name, String(value)]);
    const ranges = Object.entries(addressing ?? {}).map(([family, range]) => [
      `range ${family}`,
      `${range["alloc-range"]} (${range.source})`,
    ]);
    for (const line of columns([...facts, ...ranges], "")) terminal.out(line);
    terminal.out(terminal.colors.bold("options"));
    for (const line of columns(Object.entries(found.spec.options).map(([name, value]) => [name, value === "" ? "-" : value])))
      terminal.out(line);
    return 0;
  });
}

export function logLevel(options: LevelOptions, terminal: Terminal): Promise<number> {
  return asking(options, terminal, async (client) => {
    const { level } = options;
    const { body } = await (level === undefined
      ? client.call("getConfig", {})
      : client.call("patchConfig", { body: { options: { "log-level": level } } }));
    const now = body.spec.options["log-level"] ?? "";
    terminal.out(options.json ? json({ "log-level": now }) : now);
    return 0;
  });
}

export function metrics(options: AgentOptions, terminal: Terminal): Promise<number> {
  return asking(options, terminal, async (client) => {
    if (options.json) terminal.out(json((await client.call("getMetrics", {})).body));
    else terminal.out((await client.call("getMetricsText", {})).body.trimEnd());
    return 0;
  });
}

/** Passes a name of the agent's own on as it is, and looks for any other among the endpoints. */
async function nameFor(text: string, client: AgentClient): Promise<string> {
  if (isNameOfApi(text)) return text;
  const { body } = await client.call("listEndpoints", {});
  return String(endpointNamed(text, body).id);
}

function row({ id, status: { state, networking, "external-identifiers": names } }: EndpointModel): string[] {
  const pod = names["k8s-pod-name"];
  return [
    String(id),
    state,
    networking.addresses.map(({ address }) => address).join(",") || "-",
    networking["interface-name"] ?? "-",
    pod === undefined ? "-" : `${names["k8s-namespace"]}/${pod}`,
    names["cni-attachment-id"],
  ];
}

const WIDE_COLUMNS = ["NETWORK", "MAC", "SANDBOX", "ADDED", "IDENTITY"];

function wideCells({ status: { attachment, networking, "committed-at": added, identity } }: EndpointModel): string[] {
  return [attachment.network, networking.mac ?? "-", networking.netns || "-", added ?? "not yet", identity?.id.toString() ?? "-"];
}

function facts(found: EndpointModel): string[][] {
  const { status } = found;
  const { networking, attachment, health } = status;
  const pod = status["external-identifiers"]["k8s-pod-name"];
  return [
    ["endpoint", String(found.id)],
    ["state", `${status.state}, ${health.overallHealth}`],
    ["network", attachment.network],
    ["container", attachment["container-id"]],
    ["workload", pod === undefined ? "-" : `${status["external-identifiers"]["k8s-namespace"]}/${pod}`],
    ["addresses", networking.addresses.map(({ address, grant }) => `${address} (${grant})`).join(", ") || "-"],
    ["host end", [networking["interface-name"], networking["host-mac"]].filter((one) => one !== undefined).join(" ") || "-"],
    ["pod end", [networking["container-interface-name"], networking.mac].filter((one) => one !== undefined).join(" ")],
    ["sandbox", networking.netns || "-"],
    ["added", status["committed-at"] ?? "not yet"],
    ["identity", status.identity === undefined ? "-" : `${status.identity.id} (${status.identity.labels.join(" ")})`],
  ];
}

export function json(value: unknown): string {
  return JSON.stringify(value, undefined, 2);
}

/** Knows the agent's own names: a number, or a name with its prefix (docs/reference/api.md). */
export function isNameOfApi(text: string): boolean {
  return /^\d{1,5}$/.test(text) || /^(?:cilium-local|local|container-id|attachment|cni-attachment-id|pod-name|ipv4|ipv6):/.test(text);
}

/**
 * Finds the endpoint whose address, pod (with or without its namespace), host interface or container id is `text`; else the one whose container
 * id alone begins so.
 * @throws TortieError `endpoint-unknown`, `endpoint-ambiguous` with the numbers of those that it could be
 */
export function endpointNamed(text: string, endpoints: readonly EndpointModel[]): EndpointModel {
  const address = parseAddress(text);
  const written = address === undefined ? text : formatAddress(address);
  const exact = endpoints.filter((endpoint) => namesOf(endpoint).includes(written));
  const found = exact.length > 0 ? exact : endpoints.filter((endpoint) => containerOf(endpoint).startsWith(text));
  const [only] = found;
  if (only === undefined) throw new TortieError("endpoint-unknown", `no endpoint of this node is called ${JSON.stringify(text)}`);
  if (found.length === 1) return only;
  const list = found.map((one) => `${one.id} (${containerOf(one)})`).join(", ");
  throw new TortieError("endpoint-ambiguous", `${JSON.stringify(text)} may be one of ${list}`);
}

function namesOf(endpoint: EndpointModel): readonly string[] {
  const { networking, "external-identifiers": identifiers } = endpoint.status;
  const { "k8s-pod-name": pod, "k8s-namespace": namespace } = identifiers;
  return [
    containerOf(endpoint),
    ...networking.addresses.map((one) => one.address),
    ...(networking["interface-name"] === undefined ? [] : [networking["interface-name"]]),
    ...(pod === undefined ? [] : [pod, `${namespace}/${pod}`]),
  ];
}

function containerOf({ status }: EndpointModel): string {
  return status["external-identifiers"]["container-id"];
}
