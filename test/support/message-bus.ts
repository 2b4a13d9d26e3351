/** A message bus of a pretend machine, for daemons of the system that are started there for a test. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "./kubernetes/until.ts";
import type { Node, RunOptions, RunResult } from "./node.ts";

const DBUS = "/usr/bin/dbus-daemon";
const RULES = `<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>`;

export const HAS_MESSAGE_BUS = existsSync(DBUS);

type Binds = Pick<RunOptions, "binds">;

export class MessageBus implements AsyncDisposable {
  readonly #node: Node;
  readonly #address: string;
  readonly #children: ChildProcess[] = [];

  private constructor(node: Node) {
    this.#node = node;
    this.#address = `unix:path=${join(node.dir, "bus")}`;
  }

  static async start(node: Node): Promise<MessageBus> {
    const bus = new MessageBus(node);
    const file = join(node.dir, "bus.conf");
    writeFileSync(file, `<busconfig><type>system</type><listen>${bus.#address}</listen><auth>EXTERNAL</auth>${RULES}</busconfig>`);
    bus.daemon([DBUS, `--config-file=${file}`, "--nofork", "--nopidfile"]);
    await until("the bus", () => existsSync(join(node.dir, "bus")));
    return bus;
  }

  /** Starts a program that runs until the bus is disposed of. */
  daemon(argv: readonly string[], { binds = {} }: Binds = {}): void {
    const line = this.#node.commandLine(argv, { env: this.#environment, binds });
    this.#children.push(spawn("/usr/bin/setpriv", ["--pdeathsig", "KILL", "--", ...line], { stdio: "ignore" }));
  }

  run(argv: readonly string[]): Promise<RunResult> {
    return this.#node.run(argv, { env: this.#environment });
  }

  /** Runs a program that says something by its exit status. @throws Error when it fails */
  async must(argv: readonly string[]): Promise<void> {
    const { exit, stderr } = await this.run(argv);
    if (exit !== 0) throw new Error(`${argv.join(" ")}: ${stderr}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children.reverse()) {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      if (child.exitCode === null && child.signalCode === null && child.kill("SIGKILL")) await ended;
    }
  }

  get #environment(): Readonly<Record<string, string>> {
    return { DBUS_SYSTEM_BUS_ADDRESS: this.#address, PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };
  }
}
