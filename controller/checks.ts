/** What the checks of the controller's own health decide by; those that it shares with the agent are in lib/resident/checks.ts. */
import { count, enumerate } from "../doctor/problem.ts";
import type { Check } from "../lib/resident/health.ts";
import type { Elector } from "./leader/elector.ts";
import type { ControllerOptions } from "./options.ts";
import type { QueueStatus } from "./queue/work-queue.ts";

export function leaseCheck(elector: Pick<Elector, "problem" | "description">): Check {
  return {
    name: "lease",
    decides: "ready",
    look: () =>
      elector.problem === undefined
        ? { state: "ok", message: elector.description }
        : { state: "failure", message: elector.problem, next: "compare the controller's rights with manifests/controller/rbac.yaml" },
  };
}

/** @param status `undefined` while this controller does not lead */
export function queueCheck(status: () => QueueStatus | undefined): Check {
  return {
    name: "queue",
    decides: "shown",
    look() {
      const { length, failing } = status() ?? { length: 0, failing: [] };
      if (failing.length === 0) return { state: "ok", message: `${length} items wait` };
      const words = failing.map(({ key, failures, message }) => `${key} (${failures} times): ${message}`);
      return { state: "warning", message: words.join("; "), next: "they are repeated; their messages say what stands in the way" };
    },
  };
}

/**
 * Whether addresses are left to Calico's kube-controllers. That stops this program's main duty, so it is a warning unless the options ask
 * for it.
 *
 * @param found why kube-controllers counted as present at the last look
 */
export function kubeControllersCheck(setting: ControllerOptions["calico-kube-controllers"], found: () => string | undefined): Check {
  return {
    name: "calico-kube-controllers",
    decides: "shown",
    look() {
      const why = found();
      if (why === undefined) return { state: "ok", message: "addresses are not left to Calico's kube-controllers" };
      const message = `nothing is released here: addresses are left to Calico's kube-controllers: ${why}`;
      if (setting === "present") return { state: "ok", message };
      return {
        state: "warning",
        message,
        next: "--calico-kube-controllers=present says that this is intended; =absent that Calico's kube-controllers does not run",
      };
    },
  };
}

/** @param unread pods whose annotations were not read to their end */
export function annotationsCheck(unread: () => readonly string[]): Check {
  return {
    name: "annotations",
    decides: "shown",
    look() {
      const pods = unread();
      if (pods.length === 0) return { state: "ok", message: "every pod's annotations are read to their end" };
      return {
        state: "warning",
        message: `${count(pods.length, "pod")} with too much text or too many addresses in annotations: ${enumerate(pods)}`,
        next: "shorten the annotations of these pods; until then addresses that were allocated to them are kept, even unused ones",
      };
    },
  };
}

/** @param refusals why pools that the options ask for were not made */
export function firstPoolsCheck(refusals: () => readonly string[]): Check {
  return {
    name: "first-pools",
    decides: "shown",
    look() {
      const reasons = refusals();
      if (reasons.length === 0) return { state: "ok", message: "every pool that the options ask for is there" };
      return {
        state: "warning",
        message: reasons.join("; "),
        next: "set what the message says, or create an IPPool; until then no pod gets an address",
      };
    },
  };
}
