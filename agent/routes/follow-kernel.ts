/** Calls for a look at the routes soon after the kernel has changed, and at once after changes may have been missed. */
import type { ChangeListener } from "../../dataplane/linux/kernel-changes.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import type { Tasks } from "../../lib/resident/tasks.ts";
import type { Clock } from "../../lib/system/waiting.ts";

const NAME = "node-routes-changes";
/** Changes come in bursts: an interface that goes down takes its addresses and routes along. */
const GATHER_MS = 200;
/** Pause between two looks that changes call for: programs that quarrel about a route must not keep the agent busy. */
const LEAST_PAUSE_MS = 800;
/** How often a socket that cannot be opened is tried again. */
const INTERVAL_MS = 60_000;
const REOPEN_MS = 1_000;

interface FollowKernelParts {
  readonly listen: (listener: ChangeListener) => Promise<Disposable>;
  readonly look: () => void;
  readonly controllers: Pick<Tasks, "update" | "trigger">;
  readonly clock: Pick<Clock, "now" | "sleep">;
  readonly log: Pick<AgentLog, "error">;
}

/** Listens from now on, for as long as the process lives; without a socket the regular looks remain. */
export function followKernel({ listen, look, controllers, clock, log }: FollowKernelParts): void {
  let held: Disposable | undefined;
  let isWaiting = false;
  let lookedAt = Number.NEGATIVE_INFINITY;
  const lookSoon = async () => {
    if (isWaiting) return;
    isWaiting = true;
    await clock.sleep(Math.max(GATHER_MS, lookedAt + LEAST_PAUSE_MS - clock.now()));
    isWaiting = false;
    lookedAt = clock.now();
    look();
  };
  const listener: ChangeListener = {
    onChange: () => void lookSoon(),
    onEnd(error) {
      held = undefined;
      log.error("the kernel's notifications of routes ended, and are opened again", { error });
      void clock.sleep(REOPEN_MS).then(() => controllers.trigger(NAME));
    },
  };
  controllers.update(NAME, {
    async run() {
      if (held !== undefined) return;
      try {
        held = await listen(listener);
        void lookSoon();
      } catch (error) {
        throw new Error(`changes of the kernel are noticed once a minute only: ${messageOf(error)}`, { cause: error });
      }
    },
    intervalMs: INTERVAL_MS,
    isJittered: true,
    quiet: true,
  });
}
