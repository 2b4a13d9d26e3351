/**
 * What a scenario is played in: a network and a mount namespace of its own in which the recordings' fixed paths are private
 * directories (/run, /var/lib/calico, …) and the pods' namespaces have their recorded names (/run/netns/pod1). test/support/node.ts is the
 * general pretend machine; this one exists because recordings name absolute paths.
 */
import { type ChildProcess, spawn } from "node:child_process";
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";

const NSENTER = "/usr/bin/nsenter";
/** Where the executables are; TORTIE_TEST_BIN names others, for comparing two builds. */
const BIN = resolve(process.env.TORTIE_TEST_BIN ?? "dist/bin");
const REFERENCE_PLUGINS = "/usr/lib/cni";
/** Above the longest wait that was recorded of Calico, 90 s for the upgrade of labels. */
const CALL_LIMIT_MS = 150_000;

/** Directories that are private to a sandbox: path in the sandbox → directory below the sandbox's own. */
const PRIVATE: Readonly<Record<string, string>> = {
  "/run": "run",
  "/var/lib/calico": "var-lib-calico",
  "/var/lib/cni": "var-lib-cni",
  "/var/lib/tortie": "var-lib-tortie",
  "/var/log/calico": "var-log-calico",
};

export interface CallResult {
  /** Exit status, or words when there is none. */
  readonly exit: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command that runs beside the calls. */
export interface Background {
  hasEnded(): boolean;
}

export interface SandboxOptions {
  readonly hostname: string;
  /** Names below /run/netns; the host's own namespace is there as "host". */
  readonly podNamespaces: readonly string[];
}

const MAIN_PLUGIN = "calico";

/** Changes the text alone, so that every digit of the recording stays. */
function requiringAgent(netconf: string): string {
  return netconf.replace(/^(\s*\{)(?=\s*")/, '$1"agent": "require", ');
}

export class Sandbox implements AsyncDisposable {
  /** The sandbox's own directory; the same path in the sandbox and outside ({{run}} of the recordings). */
  readonly dir: string;
  /** {{bin}}: our executables by Calico's names, and Debian's host-local. */
  readonly binDir: string;
  /** The embedded datastore as this process sees it, and as the sandbox does. */
  readonly datastore: { readonly outside: string; readonly path: string };
  readonly #keeper: ChildProcess;
  readonly #background = new Set<ChildProcess>();
  #agent: ChildProcess | undefined;

  private constructor(dir: string, keeper: ChildProcess) {
    this.dir = dir;
    this.binDir = join(dir, "bin");
    this.datastore = { outside: join(dir, "var-lib-tortie/tortie.db"), path: "/var/lib/tortie/tortie.db" };
    this.#keeper = keeper;
  }

  static async open(options: SandboxOptions): Promise<Sandbox> {
    const dir = mkdtempSync(join(tmpdir(), "tortie-golden-"));
    // The recorder's directories were on a tmpfs, which error texts tell (netns-file).
    await must(["/bin/mount", "-t", "tmpfs", "-o", "mode=755", "tortie-golden", dir]);
    for (const name of [...Object.values(PRIVATE), "bin"]) mkdirSync(join(dir, name));
    for (const name of ["calico", "calico-ipam"]) symlinkSync(join(BIN, name), join(dir, "bin", name));
    symlinkSync(join(REFERENCE_PLUGINS, "host-local"), join(dir, "bin", "host-local"));
    const keeper = spawn(
      "/usr/bin/unshare",
      [
        "--mount",
        "--net",
        "--uts",
        "--propagation",
        "private",
        "/bin/sh",
        "-c",
        KEEPER,
        "sandbox",
        dir,
        options.hostname,
        ...options.podNamespaces,
      ],
      {
        stdio: ["pipe", "pipe", "inherit"],
      },
    );
    const sandbox = new Sandbox(dir, keeper);
    await ready(keeper);
    return sandbox;
  }

  /** The host's network namespace as a path. */
  get networkNamespace(): string {
    return `/proc/${this.#keeper.pid}/ns/net`;
  }

  /** Puts a file where the sandbox sees it at `path`; what lies below the sandbox's directory may be executed. */
  writeFile(path: string, content: string): void {
    const outside = this.#outside(path);
    mkdirSync(dirname(outside), { recursive: true });
    writeFileSync(outside, content);
    if (path.startsWith(this.dir)) chmodSync(outside, 0o755);
  }

  /** Regular files and directories below `path` as the sandbox sees them → content, or octal mode. */
  files(path: string, what: "content" | "mode", skip: readonly string[] = []): Record<string, string> {
    const outside = this.#outside(path);
    if (!existsSync(outside)) return {};
    return Object.assign(
      {},
      ...readdirSync(outside, { withFileTypes: true }).map((entry) => {
        const inside = join(path, entry.name);
        if (skip.includes(inside)) return {};
        const mode = { [inside]: statSync(join(outside, entry.name)).mode.toString(8) };
        if (entry.isDirectory()) return { ...(what === "mode" ? mode : {}), ...this.files(inside, what, skip) };
        if (!entry.isFile()) return {};
        return what === "mode" ? mode : { [inside]: readFileSync(join(outside, entry.name), "utf8") };
      }),
    );
  }

  /** Calls a plugin with exactly this environment, in the host's namespace. */
  async call(
    plugin: string,
    argv: readonly string[],
    env: Readonly<Record<string, string>>,
    stdin: string,
    limitMs = CALL_LIMIT_MS,
  ): Promise<CallResult> {
    const isForAgent = this.#agent !== undefined && basename(plugin) === MAIN_PLUGIN;
    const given = isForAgent ? requiringAgent(stdin) : stdin;
    return run([...this.#enter(), join(this.binDir, basename(plugin)), ...argv], { env, stdin: given, limitMs });
  }

  /** Runs a shell command in a pod's namespace, or in the host's; what its exit status means is the caller's affair. */
  async shell(where: string, command: string): Promise<CallResult> {
    return run([...this.#enter(where), "/bin/sh", "-c", command], {});
  }

  /** Starts an agent at the place where plugins look for one; it ends with the sandbox. Comes back when it serves. @param flags that lead it to its datastore */
  async startAgent(flags: readonly string[]): Promise<void> {
    const log = openSync(join(this.dir, "agent.log"), "a");
    const [file = "", ...args] = [...this.#enter(), join(BIN, "tortie-node"), "--health-port", "0", ...flags];
    const agent = spawn(file, args, { env: {}, stdio: ["ignore", log, log] });
    closeSync(log);
    this.#agent = agent;
    while (!this.#agentIsReady()) {
      if (agent.exitCode !== null) throw new Error(`the agent ended with ${agent.exitCode}: ${this.agentLog()}`);
      await new Promise((done) => setTimeout(done, 5));
    }
  }

  /** What the agent has written; empty without one. */
  agentLog(): string {
    const path = join(this.dir, "agent.log");
    return existsSync(path) ? readFileSync(path, "utf8") : "";
  }

  #agentIsReady(): boolean {
    const path = join(this.dir, "run/tortie/agent.json");
    return existsSync(path) && readFileSync(path, "utf8").includes('"ready"');
  }

  /** Starts a shell command that runs until `endBackground`. */
  startBackground(where: string, command: string): Background {
    const [file = "", ...args] = [...this.#enter(where), "/bin/sh", "-c", command];
    const child = spawn(file, args, { stdio: "ignore", detached: true });
    this.#background.add(child);
    return { hasEnded: () => child.exitCode !== null };
  }

  endBackground(): void {
    // Who is not running any more has no group to kill.
    for (const child of this.#background) if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGKILL");
    this.#background.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.endBackground();
    if (this.#agent?.exitCode === null) {
      const agentEnded = new Promise((done) => this.#agent?.once("exit", done));
      this.#agent.kill("SIGKILL");
      await agentEnded;
    }
    const ended = new Promise((done) => this.#keeper.once("exit", done));
    this.#keeper.stdin?.end();
    this.#keeper.kill("SIGKILL");
    await ended;
    await must(["/bin/umount", "--lazy", this.dir]);
    rmSync(this.dir, { recursive: true, force: true });
  }

  #enter(where = "host"): string[] {
    const network = where === "host" ? `--net=/proc/${this.#keeper.pid}/ns/net` : `--net=/proc/${this.#keeper.pid}/root/run/netns/${where}`;
    return [NSENTER, `--mount=/proc/${this.#keeper.pid}/ns/mnt`, `--uts=/proc/${this.#keeper.pid}/ns/uts`, network, "--wdns=/"];
  }

  #outside(path: string): string {
    const real = path.replace(/^\/var\/run\//, "/run/");
    const mount = Object.keys(PRIVATE).find((target) => real === target || real.startsWith(`${target}/`));
    return mount === undefined ? real : join(this.dir, PRIVATE[mount] ?? "", real.slice(mount.length));
  }
}

/**
 * Holds the namespaces until its standard input closes. The kernel's settings that the recorder's machine had are put there, because
 * new namespaces take theirs from the machine the tests run on. Duplicate address detection sends nothing and starts without its random
 * delay (net/ipv6/addrconf.c, addrconf_dad_kick), so that nobody waits for it.
 */
const KEEPER = `
set -e
dir=$1; hostname=$2; shift 2
umask 022
for pair in ${Object.entries(PRIVATE)
  .map(([target, source]) => `${target}:${source}`)
  .join(" ")}; do
  target=\${pair%%:*}; mkdir -p "$target"; mount --bind "$dir/\${pair##*:}" "$target"
done
[ -L /var/run ] || mount --bind /run /var/run
hostname "$hostname"
mkdir -p /run/netns
touch /run/netns/host
mount --bind /proc/self/ns/net /run/netns/host
${settings("host", 0)}
for name in "$@"; do
  ip netns add "$name"
  ${settings("$name", 1)}
done
echo ready
read -r end || true
`;

/** Shell commands that bring a namespace's loopback up and give it the recorder's settings. */
function settings(where: string, forwarding: 0 | 1): string {
  const files = ["all", "default"].flatMap((scope) => [
    `echo 0 > /proc/sys/net/ipv4/conf/${scope}/rp_filter`,
    `echo ${forwarding} > /proc/sys/net/ipv6/conf/${scope}/forwarding`,
    `echo 0 > /proc/sys/net/ipv6/conf/${scope}/dad_transmits`,
    `echo 0 > /proc/sys/net/ipv6/conf/${scope}/router_solicitation_delay`,
  ]);
  const commands = ["ip link set lo up", ...files, `echo ${forwarding} > /proc/sys/net/ipv4/ip_forward`].join("; ");
  return `nsenter --net="/run/netns/${where}" /bin/sh -ec '${commands}'`;
}

function ready(keeper: ChildProcess): Promise<void> {
  return new Promise((done, failed) => {
    let text = "";
    keeper.stdout?.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      if (text.includes("ready\n")) done();
    });
    keeper.once("exit", (code) => failed(new Error(`the sandbox could not be made: exit ${code}`)));
  });
}

async function must(argv: readonly string[]): Promise<void> {
  const { exit, stderr } = await run(argv, {});
  if (exit !== 0) throw new Error(`${argv.join(" ")}: exit ${exit}: ${stderr}`);
}

interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  readonly limitMs?: number;
}

function run(argv: readonly string[], options: RunOptions): Promise<CallResult> {
  const { limitMs = CALL_LIMIT_MS } = options;
  return new Promise((done, failed) => {
    const [file = "", ...args] = argv;
    const child = spawn(file, args, { ...(options.env === undefined ? {} : { env: { ...options.env } }), detached: true, stdio: "pipe" });
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    let exit: number | string = "no end";
    const limit = setTimeout(() => {
      exit = `no end after ${limitMs / 1000} s`;
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    }, limitMs);
    child.stdout.on("data", (chunk: Buffer) => out.push(chunk));
    child.stderr.on("data", (chunk: Buffer) => err.push(chunk));
    child.stdin.on("error", () => undefined);
    child.stdin.end(options.stdin ?? "");
    child.on("error", failed);
    child.on("close", (code, signal) => {
      clearTimeout(limit);
      done({
        exit: code ?? (signal === "SIGKILL" ? exit : `ended by ${signal}`),
        stdout: Buffer.concat(out).toString(),
        stderr: Buffer.concat(err).toString(),
      });
    });
  });
}
