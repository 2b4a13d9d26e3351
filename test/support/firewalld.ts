/** A real firewalld on a pretend machine, with a message bus of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Node, RunResult } from "./node.ts";

const FIREWALLD = "/usr/sbin/firewalld";
const DBUS = "/usr/bin/dbus-daemon";
const LIMIT_MS = 60_000;

/** Whether the machine has it: scripts/system-packages installs it only where nothing would start it. */
export const HAS_FIREWALLD = existsSync(FIREWALLD) && existsSync(DBUS);

export class Firewalld implements AsyncDisposable {
  readonly #node: Node;
  readonly #address: string;
  readonly #children: ChildProcess[] = [];

  private constructor(node: Node) {
    this.#node = node;
    this.#address = `unix:path=${join(node.dir, "bus")}`;
  }

  static async start(node: Node): Promise<Firewalld> {
    const made = new Firewalld(node);
    const bus = join(node.dir, "bus.conf");
    const rules = `<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>`;
    writeFileSync(bus, `<busconfig><type>system</type><listen>${made.#address}</listen><auth>EXTERNAL</auth>${rules}</busconfig>`);
    mkdirSync(join(node.dir, "firewalld"));
    made.#start([DBUS, `--config-file=${bus}`, "--nofork", "--nopidfile"]);
    await made.#until("the bus", () => existsSync(join(node.dir, "bus")));
    made.#start([
      FIREWALLD,
      "--nofork",
      "--nopid",
      "--system-config",
      join(node.dir, "firewalld"),
      "--log-file",
      join(node.dir, "firewalld.log"),
    ]);
    await made.#until("firewalld", async () => (await made.#run("--state")).exit === 0);
    return made;
  }

  /** Runs firewall-cmd. @throws Error when it fails */
  async command(...args: readonly string[]): Promise<void> {
    const { exit, stderr } = await this.#run(...args);
    if (exit !== 0) throw new Error(`firewall-cmd ${args.join(" ")}: ${stderr}`);
  }

  /** Its table as `nft` prints it. */
  async table(): Promise<string> {
    const { stdout } = await this.#node.run(["/usr/sbin/nft", "list", "table", "inet", "firewalld"]);
    return stdout.replaceAll(/\s+packets \d+ bytes \d+/g, "");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children.reverse()) {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      if (child.exitCode === null && child.signalCode === null && child.kill("SIGKILL")) await ended;
    }
  }

  #run(...args: readonly string[]): Promise<RunResult> {
    return this.#node.run(["/usr/bin/firewall-cmd", ...args], { env: this.#environment });
  }

  get #environment(): Readonly<Record<string, string>> {
    return { DBUS_SYSTEM_BUS_ADDRESS: this.#address, PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };
  }

  #start(argv: readonly string[]): void {
    const line = this.#node.commandLine(argv, { env: this.#environment });
    this.#children.push(spawn("/usr/bin/setpriv", ["--pdeathsig", "KILL", "--", ...line], { stdio: "ignore" }));
  }

  async #until(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
    for (const end = performance.now() + LIMIT_MS; !(await isTrue()); await Bun.sleep(50)) {
      if (performance.now() > end) throw new Error(`waited too long for ${what}`);
    }
  }
}
