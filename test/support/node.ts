/**
 * One pretend machine for tests: a network namespace that plays the host, a directory for its files, and sandboxes for its pods.
 * Everything is looked at from outside, through iproute2 and /proc. The whole Jest process runs inside scripts/sandbox.
 */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { judgeAtRest, type StoreHolder } from "./judge/judge.ts";
import { Ledger } from "./judge/ledger.ts";
import type { Rule } from "./judge/violations.ts";

const IP = "/usr/sbin/ip";
const NSENTER = "/usr/bin/nsenter";
/** Where `npm run build` puts the executables; Jest runs in the project's root. TORTIE_TEST_BIN names those of another tree. */
export const BIN_DIR = resolve(process.env.TORTIE_TEST_BIN ?? "dist/bin");
/** Whether the main plugin's names are the forwarder's, with the program beside it (docs/project/forwarder.md). */
export const HAS_FORWARDER = statSync(join(BIN_DIR, "tortie")).ino !== statSync(join(BIN_DIR, "tortie-ipam")).ino;
/** Where Debian's containernetworking-plugins puts the reference plugins. */
export const REFERENCE_PLUGINS_DIR = "/usr/lib/cni";
const DEFAULT_TIMEOUT_MS = 60_000;

/** A sandbox: a network namespace with only its loopback, up. */
export interface Pod {
  readonly name: string;
  readonly netnsPath: string;
}

export interface RunOptions {
  /** The whole environment of the command; the test's own when absent. */
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string | Uint8Array;
  /** Path that the command sees → directory or file put there for it alone, besides those of the node. */
  readonly binds?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  readonly cwd?: string;
}

export interface RunResult {
  /** Exit status; `null` when a signal ended the command. */
  readonly exit: number | null;
  /** Name of the signal that ended the command; "SIGKILL" also when the time limit was over. */
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CniOptions extends Omit<RunOptions, "stdin" | "env"> {
  /** Name of an executable in dist/bin, or a path. */
  readonly plugin?: string;
  readonly containerId?: string;
  readonly pod?: Pod;
  /** CNI_NETNS where `pod` does not do; "" for a sandbox that is gone. */
  readonly netns?: string;
  readonly ifname?: string;
  /** CNI_ARGS; not set when absent. */
  readonly args?: string;
  /** Network configuration: an object, or the exact text. */
  readonly conf: unknown;
  /** CNI_PATH; dist/bin and the reference plugins when absent. */
  readonly path?: string;
  /** Variables besides CNI_*; `undefined` takes one away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

export interface CniRun extends RunResult {
  /** Standard output as JSON; `undefined` when it is empty or not JSON. */
  readonly json: unknown;
}

export interface NodeOptions {
  /** Binds for every command of this node; a value that starts without "/" is below the node's directory and is made. */
  readonly binds?: Readonly<Record<string, string>>;
}

let created = 0;

export class Node implements AsyncDisposable {
  /** Name of the host's namespace for `ip -n`. */
  readonly name: string;
  readonly netnsPath: string;
  /** The node's own temporary directory. */
  readonly dir: string;
  /** Where a test may keep the embedded datastore. */
  readonly datastorePath: string;
  readonly binDir = BIN_DIR;
  /** Programs that start every plugin, for instance in a time namespace. */
  before: readonly string[] = [];
  readonly #binds: Readonly<Record<string, string>>;
  /** By name. */
  readonly #pods = new Map<string, Pod>();
  /** What calls have answered, also those that tests make without `cni`. */
  readonly ledger = new Ledger();
  /** Where its plugins keep addresses and endpoints, besides the files of its directory. */
  readonly holders = new Set<StoreHolder>();
  readonly #excused = new Set<Rule>();
  #named = 0;

  private constructor(name: string, dir: string, binds: Readonly<Record<string, string>>) {
    this.name = name;
    this.netnsPath = pathOf(name);
    this.dir = dir;
    this.datastorePath = join(dir, "tortie.db");
    this.#binds = binds;
  }

  static async create(options: NodeOptions = {}): Promise<Node> {
    const name = `node-${process.pid}-${++created}-${randomBytes(2).toString("hex")}`;
    const node = new Node(name, mkdtempSync(join(tmpdir(), `tortie-${name}-`)), options.binds ?? {});
    await addNamespace(name);
    return node;
  }

  /** A new sandbox. Its name is unique on the machine: the given one with the node's before it. */
  async addPod(name = `pod${++this.#named}`): Promise<Pod> {
    const unique = `${this.name}-${name}`;
    const pod = { name: unique, netnsPath: pathOf(unique) };
    await addNamespace(unique);
    this.#pods.set(unique, pod);
    return pod;
  }

  /** Removes a sandbox as a runtime would: processes first, then the name. */
  async removePod(pod: Pod): Promise<void> {
    this.#pods.delete(pod.name);
    await removeNamespace(pod.name);
  }

  /** Runs a command in the host's network namespace, or in that of `pod`, with a mount namespace of its own. */
  async run(argv: readonly string[], options: RunOptions = {}, pod?: Pod): Promise<RunResult> {
    return execute(this.commandLine(argv, options, pod), options);
  }

  /** What `run` executes; each program in it replaces the one before, so that the process is the command's in the end. */
  commandLine(argv: readonly string[], options: Pick<RunOptions, "binds" | "env"> = {}, pod?: Pod): readonly string[] {
    const binds = Object.entries({ ...this.#binds, ...options.binds }).flatMap(([target, source]) => [
      source.startsWith("/") ? source : join(this.dir, source),
      target,
    ]);
    const environment = options.env === undefined ? [] : ["-i", ...Object.entries(options.env).map(([key, value]) => `${key}=${value}`)];
    const mounts = binds.length === 0 ? [] : ["/bin/sh", "-c", BIND_SCRIPT, "binds", String(binds.length), ...binds];
    return [IP, "netns", "exec", pod?.name ?? this.name, ...mounts, "/usr/bin/env", ...environment, ...argv];
  }

  /** Calls a plugin as a runtime does, with nothing but CNI_*, and the agent's socket where `conf` names one, in its environment. */
  async cni(command: string, options: CniOptions): Promise<CniRun> {
    const plugin = options.plugin ?? "tortie";
    const env: Record<string, string | undefined> = {
      CNI_COMMAND: command,
      CNI_CONTAINERID: options.containerId ?? "cid1",
      CNI_NETNS: options.netns ?? options.pod?.netnsPath ?? "",
      CNI_IFNAME: options.ifname ?? "eth0",
      CNI_PATH: options.path ?? `${BIN_DIR}:${REFERENCE_PLUGINS_DIR}`,
      CNI_ARGS: options.args,
      // The forwarder finds an agent by this variable alone.
      TORTIE_SOCK: socketOf(options.conf),
      ...options.env,
    };
    const given = Object.fromEntries(Object.entries(env).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])));
    const stdin = typeof options.conf === "string" ? options.conf : JSON.stringify(options.conf);
    const isOurs = existsSync(join(BIN_DIR, basename(plugin)));
    const { CNI_COMMAND: verb = "", CNI_CONTAINERID: containerId = "", CNI_IFNAME: ifname = "" } = given;
    const answered = this.ledger.begin({ verb: isOurs ? verb : "", network: networkOf(stdin), containerId, ifname });
    const run = await this.run([...this.before, plugin.includes("/") ? plugin : join(BIN_DIR, plugin)], { ...options, env: given, stdin });
    answered(run.exit === null ? undefined : run.exit === 0);
    return { ...run, json: parseOrUndefined(run.stdout) };
  }

  /** `ip` with the given arguments in the host's namespace; with "-j" first, its JSON parsed, else nothing. Throws when it fails. */
  async ip(...args: string[]): Promise<JsonRecord[]> {
    return ipIn(this.name, args);
  }

  async podIp(pod: Pod, ...args: string[]): Promise<JsonRecord[]> {
    return ipIn(pod.name, args);
  }

  /** Content of /proc/sys/<path> on the host or in a pod, trimmed; `undefined` when there is no such file. */
  async sysctl(path: string, pod?: Pod): Promise<string | undefined> {
    const result = await execute([NSENTER, `--net=${pod?.netnsPath ?? this.netnsPath}`, "/bin/cat", `/proc/sys/${path}`], {});
    return result.exit === 0 ? result.stdout.trim() : undefined;
  }

  /** What attachments must not leave on the host: links other than lo, and routes of both families. */
  async leftovers(): Promise<{ links: string[]; routes: string[] }> {
    const links = await this.ip("-j", "link", "show");
    const routes = [...(await this.ip("-j", "-4", "route", "show")), ...(await this.ip("-j", "-6", "route", "show"))];
    return {
      links: links.map((link) => String(link.ifname)).filter((name) => name !== "lo"),
      routes: routes.map((route) => `${route.dst} dev ${route.dev}`),
    };
  }

  async expectClean(): Promise<void> {
    expect(await this.leftovers()).toEqual({ links: [], routes: [] });
  }

  /** The judge overlooks what breaks these rules at the end: the test breaks them on purpose, or leaves something under way. */
  excuse(_why: string, ...rules: readonly Rule[]): void {
    for (const rule of rules) this.#excused.add(rule);
  }

  /** @throws Error when the judge finds that something was doubled, leaked or left behind (test/support/judge/at-rest.ts) */
  async [Symbol.asyncDispose](): Promise<void> {
    const sandboxes = [...this.#pods.values()];
    const found = await judgeAtRest({ node: this, sandboxes, ledger: this.ledger, holders: [...this.holders] });
    await Promise.all([...sandboxes.map((pod) => pod.name), this.name].map(removeNamespace));
    this.#pods.clear();
    rmSync(this.dir, { recursive: true, force: true });
    const wrong = found.filter(({ rule }) => !this.#excused.has(rule)).map(({ rule, what }) => `  ${rule}: ${what}`);
    if (wrong.length > 0) throw new Error(`the judge finds on ${this.name}, when its test is over:\n${wrong.join("\n")}`);
  }
}

/** A record of `ip -j`: it is looked at with matchers, so its shape is left open. */
export type JsonRecord = Record<string, unknown>;

/** Arguments: their number, then pairs of source and target, then the command. Sources and targets are made where they are missing. */
const BIND_SCRIPT = `
n=$1; shift
while [ "$n" -gt 0 ]; do
  [ -e "$1" ] || /bin/mkdir -p "$1" || exit 125
  if [ -d "$1" ]; then /bin/mkdir -p "$2"; elif [ ! -e "$2" ]; then : > "$2"; fi || exit 125
  /bin/mount --bind "$1" "$2" || exit 125
  shift 2; n=$((n-2))
done
exec "$@"`;

function socketOf(conf: unknown): string | undefined {
  const socket = typeof conf === "object" && conf !== null && "agent_socket" in conf ? conf.agent_socket : undefined;
  return typeof socket === "string" ? socket : undefined;
}

/** Name of the network in a configuration; empty where it has none. */
export function networkOf(conf: string): string {
  const parsed = parseOrUndefined(conf);
  return typeof parsed === "object" && parsed !== null && "name" in parsed ? String(parsed.name) : "";
}

function pathOf(name: string): string {
  return `/run/netns/${name}`;
}

async function addNamespace(name: string): Promise<void> {
  await must([IP, "netns", "add", name]);
  await must([IP, "-n", name, "link", "set", "lo", "up"]);
}

async function removeNamespace(name: string): Promise<void> {
  const pids = (await execute([IP, "netns", "pids", name], {})).stdout.split("\n").filter((line) => line !== "");
  for (const pid of pids) {
    try {
      process.kill(Number(pid), "SIGKILL");
    } catch {
      // It ended by itself.
    }
  }
  await execute([IP, "netns", "del", name], {});
}

async function ipIn(name: string, args: readonly string[]): Promise<JsonRecord[]> {
  const stdout = await must([IP, "-n", name, ...args]);
  // `ip -j` prints nothing at all for some empty lists.
  return args[0] === "-j" && stdout.trim() !== "" ? JSON.parse(stdout) : [];
}

async function must(argv: readonly string[]): Promise<string> {
  const result = await execute(argv, {});
  if (result.exit !== 0) throw new Error(`${argv.join(" ")}: exit ${result.exit ?? result.signal}: ${result.stderr}`);
  return result.stdout;
}

function parseOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Runs a command in a process group of its own, so that a time limit ends its children too. */
function execute(argv: readonly string[], options: RunOptions): Promise<RunResult> {
  return new Promise((done, failed) => {
    const [file = "", ...args] = argv;
    const child = spawn(file, args, { cwd: options.cwd, detached: true, stdio: ["pipe", "pipe", "pipe"] });
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    const limit = setTimeout(() => {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    }, options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    child.stdout.on("data", (chunk: Buffer) => out.push(chunk));
    child.stderr.on("data", (chunk: Buffer) => err.push(chunk));
    // A command that never reads its input closes the pipe; that is not the test's failure.
    child.stdin.on("error", () => undefined);
    child.stdin.end(options.stdin ?? "");
    child.on("error", failed);
    child.on("close", (exit, signal) => {
      clearTimeout(limit);
      done({ exit, signal, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() });
    });
  });
}
