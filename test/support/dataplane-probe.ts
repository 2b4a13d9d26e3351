/**
 * Calls the Linux dataplane from inside a node's namespace, as the plugin does: a short Bun process whose "host" is the node.
 * What it prints is one JSON object: the result, or the error's word and message.
 */
import type { Attachment, DesiredState, Difference } from "../../dataplane/desired-state.ts";
import type { Node } from "./node.ts";

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
  desired: DesiredState,
  options: ProbeOptions & { readonly thenFail?: boolean } = {},
): Promise<Answer<Applied>> {
  return probe(node, `apply(${JSON.stringify(desired)}, ${options.thenFail ?? false})`, options);
}

export function inspect(node: Node, desired: DesiredState): Promise<Answer<readonly Difference[]>> {
  return probe(node, `dataplane.inspect(${JSON.stringify(desired)})`);
}

export function remove(node: Node, attachment: Attachment): Promise<Answer<undefined>> {
  return probe(node, `dataplane.remove(${JSON.stringify(attachment)})`);
}

export interface ProbeOptions {
  /** Shell commands that run before, in the same mount and network namespace. */
  readonly before?: string;
}

/** Evaluates an expression in which `dataplane` is a LinuxDataplane and `apply` applies a state. */
export async function probe<T>(node: Node, expression: string, options: ProbeOptions = {}): Promise<Answer<T>> {
  const script = `
    import { LinuxDataplane } from "${process.cwd()}/dataplane/linux/linux-dataplane.ts";
    import { TortieError } from "${process.cwd()}/lib/errors.ts";
    const dataplane = new LinuxDataplane();
    async function apply(desired, thenFail) {
      await using undo = new AsyncDisposableStack();
      const applied = await dataplane.apply(desired, undo);
      if (thenFail) throw new Error("something later failed");
      undo.move();
      return applied;
    }
    try { console.log(JSON.stringify({ value: await ${expression} })); }
    catch (error) { console.log(JSON.stringify({ error: { word: error instanceof TortieError ? error.word : undefined, message: error.message } })); }`;
  const before = options.before === undefined ? "" : `${options.before} || exit 99; `;
  const run = await node.run(["/bin/sh", "-c", `${before}exec "$0" -e "$1"`, process.execPath, script]);
  if (run.exit !== 0) throw new Error(`probe: exit ${run.exit ?? run.signal}: ${run.stdout}${run.stderr}`);
  return JSON.parse(run.stdout);
}
