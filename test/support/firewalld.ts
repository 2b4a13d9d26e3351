/** A real firewalld on a pretend machine, with a message bus of its own. */
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { until } from "./kubernetes/until.ts";
import { HAS_MESSAGE_BUS, MessageBus } from "./message-bus.ts";
import type { Node } from "./node.ts";

const FIREWALLD = "/usr/sbin/firewalld";
const COMMAND = "/usr/bin/firewall-cmd";

/** Whether the machine has it: scripts/system-packages installs it only where nothing would start it. */
export const HAS_FIREWALLD = existsSync(FIREWALLD) && HAS_MESSAGE_BUS;

export class Firewalld implements AsyncDisposable {
  readonly #node: Node;
  readonly #bus: MessageBus;

  private constructor(node: Node, bus: MessageBus) {
    this.#node = node;
    this.#bus = bus;
  }

  static async start(node: Node): Promise<Firewalld> {
    const bus = await MessageBus.start(node);
    const configuration = join(node.dir, "firewalld");
    mkdirSync(configuration);
    const log = join(node.dir, "firewalld.log");
    bus.daemon([FIREWALLD, "--nofork", "--nopid", "--system-config", configuration, "--log-file", log]);
    await until("firewalld", async () => (await bus.run([COMMAND, "--state"])).exit === 0);
    return new Firewalld(node, bus);
  }

  /** Runs firewall-cmd. @throws Error when it fails */
  command(...args: readonly string[]): Promise<void> {
    return this.#bus.must([COMMAND, ...args]);
  }

  /** Its table as `nft` prints it. */
  async table(): Promise<string> {
    const { stdout } = await this.#node.run(["/usr/sbin/nft", "list", "table", "inet", "firewalld"]);
    return stdout.replaceAll(/\s+packets \d+ bytes \d+/g, "");
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#bus[Symbol.asyncDispose]();
  }
}
