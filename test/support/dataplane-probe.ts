/**
 * Calls the Linux dataplane from inside a node's namespace, as the plugin does: a short Bun process whose "host" is the node.
 * What it prints is one JSON object: the result, or the error's word and message.
 */
import type { Attachment, DesiredState, Difference } from "../../dataplane/desired-state.ts";
import type { JsonRecord, Node } from "./node.ts";

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

/** What happens between `prepare` and `apply`, and after. */
export interface PreparedOptions extends ProbeOptions {
  /** What is prepared, when it is not `desired` without addresses. */
  readonly prepared: DesiredState;
  /** Everything but addresses and routes is known. */
  readonly isComplete: boolean;
  /** A shell command in the node's namespace. */
  readonly between?: string;
  /** After that: prepares again, or removes what is there, having prepared again. */
  readonly later?: "prepare" | "remove";
  /** "before": `apply` is not come to; "after": everything is undone after it. */
  readonly fails?: "before" | "after";
}

/** The course of a prepared attachment. Links are those of the host, as `ip -j -d link` shows them. */
export interface PreparedStory {
  readonly links: readonly JsonRecord[];
  /** Of the host, as `ip -j -4 addr` shows them. */
  readonly addresses: readonly JsonRecord[];
  /** Of the pod, after `later`, as `ip -j -4 route` shows them. */
  readonly podRoutes?: readonly JsonRecord[];
  readonly applied?: Applied;
  readonly error?: Answer<never>["error"];
  /** Names of the host's links when the addresses are given back; absent when they are not. */
  readonly atGiveBack?: readonly string[];
  /** Network namespaces and netlink sockets that the process has open: how many more than before. */
  readonly newDescriptors: number;
}

/** Prepares, as an ADD does while its addresses are found, and applies. Once in vain before, so that what is opened for good is open. */
export async function prepareAndApply(node: Node, desired: DesiredState, options: PreparedOptions): Promise<PreparedStory> {
  const { prepared, isComplete, between = "true", later, fails } = options;
  const course = JSON.stringify({ prepared, isComplete, desired, between, later, fails });
  const { value, error } = await probe<PreparedStory>(node, `prepareAndApply(${course})`, options);
  if (value === undefined) throw new Error(error?.message);
  return value;
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
    import { readdirSync, readFileSync, readlinkSync } from "node:fs";
    import { LinuxDataplane } from "${process.cwd()}/dataplane/linux/linux-dataplane.ts";
    import { TortieError } from "${process.cwd()}/lib/errors/errors.ts";
    const dataplane = new LinuxDataplane();
    async function apply(desired, thenFail) {
      await using undo = new AsyncDisposableStack();
      const applied = await dataplane.apply(desired, undo);
      if (thenFail) throw new Error("something later failed");
      undo.move();
      return applied;
    }
    const run = (...argv) => {
      const { exitCode, stdout, stderr } = Bun.spawnSync(argv);
      if (exitCode !== 0) throw new Error(argv.join(" ") + ": " + stderr);
      return stdout.toString();
    };
    const links = () => JSON.parse(run("/usr/sbin/ip", "-j", "-d", "link", "show"));
    // What a site consists of; those of the commands above come and go.
    const descriptors = () => {
      const netlink = readFileSync("/proc/self/net/netlink", "utf8").split("\\n").map((line) => "socket:[" + line.trim().split(/ +/).at(-1) + "]");
      return readdirSync("/proc/self/fd").filter((fd) => {
        const target = targetOf("/proc/self/fd/" + fd);
        return target.startsWith("net:[") || target.startsWith("/run/netns/") || netlink.includes(target);
      }).length;
    };
    const targetOf = (path) => { try { return readlinkSync(path); } catch { return ""; } };
    const podRoutes = (sandbox) => JSON.parse(run("/usr/bin/nsenter", "--net=" + sandbox, "/usr/sbin/ip", "-j", "-4", "route", "show") || "[]");
    async function prepareAndApply({ prepared, isComplete, desired, between, later, fails }) {
      { await using undo = new AsyncDisposableStack(); dataplane.prepare(prepared, isComplete, undo); }
      const before = descriptors();
      const story = {};
      try {
        await using undo = new AsyncDisposableStack();
        dataplane.prepare(prepared, isComplete, undo);
        story.links = links();
        story.addresses = JSON.parse(run("/usr/sbin/ip", "-j", "-4", "addr", "show"));
        undo.defer(() => { story.atGiveBack = links().map(({ ifname }) => ifname); });
        run("/bin/sh", "-c", between);
        if (later !== undefined) dataplane.prepare(prepared, isComplete, undo);
        if (later === "prepare") story.podRoutes = podRoutes(desired.sandbox);
        if (later === "remove") await dataplane.removeHostEnd(desired.host.name, desired.host.alias);
        if (fails === "before") throw new Error("no address");
        story.applied = await dataplane.apply(desired, undo);
        if (fails === "after") throw new Error("something later failed");
        undo.move();
      } catch (error) { story.error = { word: error.word, message: error.message }; }
      story.newDescriptors = descriptors() - before;
      return story;
    }
    try { console.log(JSON.stringify({ value: await ${expression} })); }
    catch (error) { console.log(JSON.stringify({ error: { word: error instanceof TortieError ? error.word : undefined, message: error.message } })); }`;
  const before = options.before === undefined ? "" : `${options.before} || exit 99; `;
  const run = await node.run(["/bin/sh", "-c", `${before}exec "$0" -e "$1"`, process.execPath, script]);
  if (run.exit !== 0) throw new Error(`probe: exit ${run.exit ?? run.signal}: ${run.stdout}${run.stderr}`);
  return JSON.parse(run.stdout);
}
