/** A real NetworkManager on a pretend machine, with a message bus and directories of its own. */
import { existsSync } from "node:fs";
import { until } from "./kubernetes/until.ts";
import { HAS_MESSAGE_BUS, MessageBus } from "./message-bus.ts";
import type { Node } from "./node.ts";

const NETWORK_MANAGER = "/usr/sbin/NetworkManager";
const COMMAND = "/usr/bin/nmcli";

/** Whether the machine has it: scripts/system-packages installs it only where nothing would start it. */
export const HAS_NETWORK_MANAGER = existsSync(NETWORK_MANAGER) && HAS_MESSAGE_BUS;

/** Where it keeps its files, so that it knows nothing of the real machine's; whoever looks at this one as a whole sees them there. */
export const NETWORK_MANAGER_BINDS: Readonly<Record<string, string>> = {
  "/run/NetworkManager": "nm-run",
  "/etc/NetworkManager": "nm-etc",
  "/var/lib/NetworkManager": "nm-lib",
};

/**
 * Makes everything of the machine read-only for it, but for the directories above: it would write /etc/resolv.conf. And it waits for udev
 * where /sys can be written; no udev knows the links of a namespace.
 */
const START = `mount -o remount,bind,ro / && mount -o remount,ro /sys && exec ${NETWORK_MANAGER} --no-daemon`;

export class NetworkManager implements AsyncDisposable {
  readonly #bus: MessageBus;

  private constructor(bus: MessageBus) {
    this.#bus = bus;
  }

  static async start(node: Node): Promise<NetworkManager> {
    const bus = await MessageBus.start(node);
    bus.daemon(["/bin/sh", "-c", START], { binds: NETWORK_MANAGER_BINDS });
    await until("NetworkManager", async () => (await bus.run([COMMAND, "general"])).exit === 0);
    return new NetworkManager(bus);
  }

  /** Runs nmcli. @throws Error when it fails */
  command(...args: readonly string[]): Promise<void> {
    return this.#bus.must([COMMAND, ...args]);
  }

  /** Waits until it says that it manages an interface, or that it does not. */
  until(link: string, isManaged: boolean): Promise<void> {
    const asked = [COMMAND, "--get-values", "GENERAL.NM-MANAGED", "device", "show", link];
    const expected = isManaged ? "yes" : "no";
    return until(`${link}: ${expected}`, async () => (await this.#bus.run(asked)).stdout.trim() === expected);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#bus[Symbol.asyncDispose]();
  }
}
