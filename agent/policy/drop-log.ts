/**
 * Listens to the kernel's packet log for the drops of policy, as long as the agent lives. Where that cannot be, the agent goes on without:
 * nothing is shown of a drop but the kernel's counters, and the health says so.
 */

import type { Netlink } from "../../dataplane/netlink/socket.ts";
import { type LogListener, listenToGroup } from "../../dataplane/nflog/group.ts";
import { getLink } from "../../dataplane/rtnetlink/link.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import type { Health } from "../../lib/resident/health.ts";
import type { Tasks } from "../../lib/resident/tasks.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import type { Drops } from "./drops.ts";

const NAME = "policy-drop-log";
/** Looks so often whether the group is still ours, and tries to get it. */
const INTERVAL_MS = 60_000;

export interface DropLogParts {
  /** `--policy-log-group`. */
  readonly group: number;
  readonly drops: Pick<Drops, "take" | "miss">;
  readonly controllers: Pick<Tasks, "update" | "trigger" | "remove">;
  readonly health: Pick<Health, "find">;
  readonly log: Pick<AgentLog, "info" | "error">;
  /** Tests give another. */
  readonly listen?: (group: number, listener: LogListener) => Promise<Disposable>;
}

/** Listens from now on, until it is disposed. */
export function followDropLog({ group, drops, controllers, health, log, listen = listenToGroup }: DropLogParts): AsyncDisposable {
  let held: Disposable | undefined;
  let finding: string | undefined;
  const become = (text: string | undefined): void => {
    if (text !== undefined && text !== finding) log.error(text);
    if (text === undefined && finding !== undefined) log.info("dropped packets are shown again", { group });
    finding = text;
    health.find(NAME, text);
  };
  const listener: LogListener = {
    onPackets(packets) {
      try {
        drops.take(packets);
      } catch (error) {
        // A link that the kernel does not tell of, or a defect: the next packets are no worse for it.
        drops.miss(packets.length);
        log.error("dropped packets could not be explained", { error });
      }
    },
    onLost: (count) => drops.miss(count),
    onEnd(error) {
      held = undefined;
      log.error("the kernel's packet log ended, and is opened again", { error });
      controllers.trigger(NAME);
    },
  };
  controllers.update(NAME, {
    async run() {
      if (held !== undefined) return;
      try {
        held = await listen(group, listener);
        become(undefined);
      } catch (error) {
        become(`dropped packets are counted, but not shown: ${messageOf(error)}`);
      }
    },
    intervalMs: INTERVAL_MS,
    isJittered: true,
    quiet: true,
  });
  return {
    async [Symbol.asyncDispose]() {
      await controllers.remove(NAME);
      held?.[Symbol.dispose]();
      held = undefined;
    },
  };
}

/** A link that is made again has another index, but one may be renamed: a name is believed for so long. */
const NAMES_MS = 1_000;

/** Says names of this host's links by their indices; asks the kernel once a second for each at most. */
export class LinkNames {
  readonly #socket: Netlink;
  readonly #clock: Pick<Clock, "now">;
  #known = new Map<number, string | undefined>();
  #since = Number.NEGATIVE_INFINITY;

  constructor(socket: Netlink, clock: Pick<Clock, "now">) {
    this.#socket = socket;
    this.#clock = clock;
  }

  /** @returns `undefined` for a link that is gone @throws NetlinkError */
  nameOf(index: number): string | undefined {
    const now = this.#clock.now();
    if (now - this.#since >= NAMES_MS) {
      this.#known = new Map();
      this.#since = now;
    }
    if (!this.#known.has(index)) this.#known.set(index, getLink(this.#socket, { index })?.name);
    return this.#known.get(index);
  }
}
