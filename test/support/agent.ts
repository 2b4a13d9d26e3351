/**
 * A real agent, `dist/bin/tortie-node`, on a pretend machine: started, asked over its socket, stopped, killed. Its run directory is the
 * node's own, and it dies with the test.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type CallAnswer, type CniCallBody, callMessage, exchangeCall, parsed } from "./call-socket.ts";
import { signalProcess } from "./kubernetes/process.ts";
import { BIN_DIR, type Node, networkOf } from "./node.ts";

/** Starting is over long before; this only ends what hangs. */
const LIMIT_MS = 60_000;
const LOOK_MS = 10;

export interface AgentOptions {
  /** Flags besides --run-dir, --health-port and --node-name, which they may repeat. */
  readonly args?: readonly string[];
  /** The whole environment of the process; empty when absent. */
  readonly env?: Readonly<Record<string, string>>;
  /** Binds besides those of the node. */
  readonly binds?: Readonly<Record<string, string>>;
  /** Below the node's directory when it has no "/" before it; default "run". */
  readonly runDir?: string;
  /** Another executable than dist/bin/tortie-node. */
  readonly program?: string;
  /** What `start` waits for; "none": only the process. Default "ready". */
  readonly until?: "local" | "ready" | "none";
}

export interface AgentAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** `undefined` where the text is no JSON. */
  readonly json: unknown;
}

export interface CallSettings {
  /** 0: not said. */
  readonly deadlineMs?: number;
  /** Hangs up. */
  readonly signal?: AbortSignal;
}

export class Agent implements AsyncDisposable {
  readonly node: Node;
  readonly runDir: string;
  readonly socket: string;
  /** The socket for calls of plugins. */
  readonly calls: string;
  /** Programs that start it from its next start on, for instance in a time namespace. */
  before: readonly string[] = [];
  readonly #options: AgentOptions;
  #child: ChildProcess;
  #output = "";
  #ended: Promise<number | string>;

  private constructor(node: Node, options: AgentOptions) {
    this.node = node;
    const runDir = options.runDir ?? "run";
    this.runDir = runDir.startsWith("/") ? runDir : join(node.dir, runDir);
    this.socket = join(this.runDir, "tortie.sock");
    this.calls = join(this.runDir, "cni.sock");
    this.#options = options;
    [this.#child, this.#ended] = this.#spawn();
  }

  static async start(node: Node, options: AgentOptions = {}): Promise<Agent> {
    const agent = new Agent(node, options);
    try {
      await agent.waitUntil(options.until ?? "ready");
    } catch (error) {
      await agent[Symbol.asyncDispose]();
      throw error;
    }
    return agent;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Everything that it has written, of all its runs. */
  get log(): string {
    return this.#output;
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Exit status, or the name of the signal that ended it. */
  get ended(): Promise<number | string> {
    return this.#ended;
  }

  /** Keys of a network configuration that lead plugins to this agent. */
  get netconf(): { readonly agent: "require"; readonly agent_socket: string } {
    return { agent: "require", agent_socket: this.socket };
  }

  /** Names of the files of DELs that wait for it. */
  get queue(): string[] {
    return readdirSync(join(this.runDir, "deletequeue")).filter((name) => name.endsWith(".json"));
  }

  /** `agent.json`; `undefined` before it is there. */
  file(): { readonly phase?: string; readonly pid?: number; readonly bootId?: string } | undefined {
    try {
      return JSON.parse(readFileSync(join(this.runDir, "agent.json"), "utf8"));
    } catch {
      return undefined;
    }
  }

  async waitUntil(phase: "local" | "ready" | "none"): Promise<void> {
    if (phase === "none") return;
    const wanted = phase === "ready" ? ["ready"] : ["local", "ready"];
    await this.until(`phase ${phase}`, () => {
      const { phase: now = "", pid } = this.file() ?? {};
      return pid === this.pid && wanted.includes(now);
    });
  }

  /** Waits for a condition, as long as the process runs. */
  async until(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
    for (const end = performance.now() + LIMIT_MS; !(await isTrue()); await Bun.sleep(LOOK_MS)) {
      if (!this.isRunning) throw new Error(`the agent ended (${await this.#ended}) before ${what}:\n${this.#output}`);
      if (performance.now() > end) throw new Error(`waited too long for ${what}:\n${this.#output}`);
    }
  }

  /** Waits until a background task has run so many times more. */
  async looks(task: string, count: number): Promise<void> {
    const runs = async () => {
      const tasks = (await this.request("GET", "/controllers")).json as { name: string; status: Record<string, number> }[];
      const status = tasks.find(({ name }) => name === task)?.status;
      return (status?.["success-count"] ?? 0) + (status?.["failure-count"] ?? 0);
    };
    const before = await runs();
    await this.until(`${count} runs of ${task}`, async () => (await runs()) >= before + count);
  }

  /** One request to the API, for instance ("GET", "/config"). */
  async request(method: string, path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}): Promise<AgentAnswer> {
    const response = await fetch(`http://agent/v1${path}`, {
      unix: this.socket,
      method,
      headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(LIMIT_MS),
      keepalive: false,
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: parsed(text) };
  }

  /** One call of a plugin, for instance ("add", callBody(…)). */
  async call(verb: string, body: CniCallBody, { deadlineMs = 0, signal }: CallSettings = {}): Promise<CallAnswer> {
    const limit = AbortSignal.timeout(LIMIT_MS);
    const answered = this.node.ledger.begin({ ...body, verb: verb.toUpperCase(), network: networkOf(body.stdin) });
    let isSuccess: boolean | undefined;
    try {
      const signals = signal === undefined ? limit : AbortSignal.any([signal, limit]);
      const answer = await exchangeCall(this.calls, callMessage(verb, body, deadlineMs), signals);
      isSuccess = answer.status === 200;
      return answer;
    } finally {
      answered(isSuccess);
    }
  }

  /** SIGTERM, and its end. @returns the exit status */
  async stop(): Promise<number | string> {
    if (this.isRunning) this.#child.kill("SIGTERM");
    return this.#ended;
  }

  /** SIGKILL, and its end. */
  async kill(): Promise<void> {
    if (this.isRunning) this.#child.kill("SIGKILL");
    await this.#ended;
  }

  signal(name: "SIGHUP" | "SIGSTOP" | "SIGCONT"): void {
    if (name === "SIGHUP") this.#child.kill(name);
    else signalProcess(this.#child.pid, name);
  }

  /** Starts it again, with what it was started with, after it has ended. */
  async restart(until: "local" | "ready" | "none" = this.#options.until ?? "ready"): Promise<void> {
    await this.stop();
    [this.#child, this.#ended] = this.#spawn();
    await this.waitUntil(until);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  #spawn(): [ChildProcess, Promise<number | string>] {
    const { args = [], env = {}, binds, program = join(BIN_DIR, "tortie-node") } = this.#options;
    const own = ["--run-dir", this.runDir, "--health-port", "0", "--node-name", "node1"];
    const line = this.node.commandLine([...this.before, program, ...own, ...args], { env, ...(binds === undefined ? {} : { binds }) });
    // The kernel kills it when Jest dies, however that happens; every program of the line replaces the one before.
    const child = spawn("/usr/bin/setpriv", ["--pdeathsig", "KILL", "--", ...line], { stdio: ["ignore", "pipe", "pipe"] });
    const collect = (chunk: Buffer) => {
      this.#output += chunk.toString();
    };
    child.stdout.on("data", collect);
    child.stderr.on("data", collect);
    const ended = new Promise<number | string>((done) => {
      child.once("error", (error) => done(String(error)));
      child.once("close", (exit, signal) => done(exit ?? signal ?? "unknown"));
    });
    return [child, ended];
  }
}
