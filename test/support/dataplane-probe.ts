/**
 * Calls the Linux dataplane from inside a node's namespace, as the plugin does: a short Bun process whose "host" is the node.
 * What it prints is one JSON object: the result, or the error's word and message.
 */
import type {
  AttachedLink,
  LinkOfAttachment,
  Mending,
  NetworkReport,
  NodeState,
  RecordedLink,
  Removal,
} from "../../dataplane/dataplane.ts";
import type { Difference } from "../../dataplane/desired-state.ts";
import { addressesAsText } from "./addresses-as-text.ts";
import type { Node } from "./node.ts";
import type { StateInSandbox } from "./programs/dataplane-by-path.ts";

export interface Answer<T> {
  readonly value?: T;
  readonly error?: { readonly word?: string; readonly message: string };
}

interface Applied {
  readonly podMac: string;
  readonly kind: string;
  readonly warnings: readonly string[];
}

/** Applies a state; `thenFail` fails afterwards, so that everything is undone. */
export function apply(
  node: Node,
  desired: StateInSandbox,
  options: ProbeOptions & { readonly thenFail?: boolean } = {},
): Promise<Answer<Applied>> {
  return probe(node, `apply(${expressionOf(desired)}, ${options.thenFail ?? false})`, options);
}

export function inspect(node: Node, desired: StateInSandbox, recorded: RecordedLink = {}): Promise<Answer<readonly Difference[]>> {
  return probe(node, `dataplane.inspect(${expressionOf(desired)}, ${expressionOf(recorded)})`);
}

export function mend(node: Node, desired: StateInSandbox, hostIndex?: number): Promise<Answer<Mending>> {
  return probe(node, `dataplane.mend(${expressionOf(desired)}, ${hostIndex})`);
}

export function drift(node: Node, desired: StateInSandbox, hostIndex?: number): Promise<Answer<readonly Difference[]>> {
  return probe(node, `dataplane.drift(${expressionOf(desired)}, ${hostIndex})`);
}

export function remove(node: Node, link: AttachedLink | LinkOfAttachment): Promise<Answer<Removal>> {
  return probe(node, `dataplane.remove(${expressionOf(link)})`);
}

export function list(node: Node): Promise<Answer<readonly AttachedLink[]>> {
  return probe(node, "dataplane.list()");
}

export function applyNode(node: Node, state: NodeState): Promise<Answer<NetworkReport>> {
  return probe(node, `dataplane.applyNode(${expressionOf(state)})`);
}

/** A value as an expression that a probe understands; addresses travel as text. */
export function expressionOf(value: object): string {
  return `revived(${JSON.stringify(JSON.stringify(value, addressesAsText))})`;
}

export interface ProbeOptions {
  /** Shell commands that run before, in the same mount and network namespace. */
  readonly before?: string;
}

/** Evaluates an expression in which `dataplane` is a LinuxDataplane by path, on `host`, and `apply` applies a state. */
export async function probe<T>(node: Node, expression: string, options: ProbeOptions = {}): Promise<Answer<T>> {
  const script = `
    import { LinuxDataplane } from "${process.cwd()}/dataplane/linux/linux-dataplane.ts";
    import { HostSockets } from "${process.cwd()}/dataplane/netlink/host-sockets.ts";
    import { parseAddress, parsePrefix } from "${process.cwd()}/lib/addresses/address.ts";
    import { TortieError } from "${process.cwd()}/lib/errors/errors.ts";
    import { byPath } from "${process.cwd()}/test/support/programs/dataplane-by-path.ts";
    const host = new HostSockets();
    const dataplane = byPath(new LinuxDataplane(host));
    const revivers = {
      addresses: (texts) => texts.map(parsePrefix),
      outgoing: (texts) => texts.map(parsePrefix),
      pools: (texts) => texts.map(parsePrefix),
      destination: parsePrefix,
      gateway: parseAddress,
      address: parseAddress,
      node: parseAddress,
      local: parseAddress,
    };
    const revived = (text) => JSON.parse(text, (key, value) => Object.hasOwn(revivers, key) ? revivers[key](value) : value);
    async function apply(desired, thenFail) {
      const applied = await dataplane.apply(desired);
      if (thenFail) { await applied[Symbol.asyncDispose](); throw new Error("something later failed"); }
      return applied;
    }
    try { console.log(JSON.stringify({ value: await ${expression} })); }
    catch (error) { console.log(JSON.stringify({ error: { word: error instanceof TortieError ? error.word : undefined, message: error.message } })); }`;
  const before = options.before === undefined ? "" : `${options.before} || exit 99; `;
  const run = await node.run(["/bin/sh", "-c", `${before}exec "$0" -e "$1"`, process.execPath, script]);
  if (run.exit !== 0) throw new Error(`probe: exit ${run.exit ?? run.signal}: ${run.stdout}${run.stderr}`);
  return JSON.parse(run.stdout);
}
