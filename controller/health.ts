/**
 * Serves the controller's health: its checks besides those that it shares with the agent (lib/resident/health.ts), and its address.
 */
import { count, enumerate } from "../doctor/problem.ts";
import { messageOf } from "../lib/errors/errors.ts";
import type { AgentLog } from "../lib/resident/agent-log.ts";
import {
  type Check,
  type CheckResult,
  controllersCheck,
  type Health,
  LoopCheck,
  warningCheck,
  watchesCheck,
} from "../lib/resident/health.ts";
import { keepHealthServed, serveMetrics } from "../lib/resident/health-server.ts";
import { SYSTEM_CLOCK } from "../lib/system/waiting.ts";
import type { Elector } from "./leader/elector.ts";
import type { ControllerMetrics } from "./metrics.ts";
import type { ControllerOptions } from "./options.ts";
import type { QueueStatus, Term } from "./term.ts";

interface HealthInput {
  readonly health: Health;
  readonly options: ControllerOptions;
  readonly elector: Elector;
  readonly term: () => Term | undefined;
  readonly metrics: ControllerMetrics;
  readonly log: AgentLog;
}

/**
 * Serves it: alive while the event loop turns; ready while the lease can be read, even by a controller that does not lead. A port that is
 * taken is a finding.
 */
export async function serveHealth({ health, options, elector, term, metrics, log }: HealthInput): Promise<AsyncDisposable> {
  const loop = new LoopCheck(SYSTEM_CLOCK);
  const checks = [
    loop.check,
    leaseCheck(elector),
    watchesCheck(() => term()?.view.states() ?? []),
    controllersCheck(() => term()?.statuses ?? []),
    queueCheck(() => term()?.queue.status),
    kubeControllersCheck(options["calico-kube-controllers"], () => term()?.kubeControllers.found),
    annotationsCheck(() => term()?.duties.addresses.unread ?? []),
    agentsCheck(() => term()?.duties.agents.away ?? []),
    firstPoolsCheck(() => term()?.duties.firstPools.refusals ?? []),
    identitiesCheck(() => term()?.duties.identities?.findings ?? []),
  ];
  for (const check of checks) health.add(check);
  const timer = setInterval(() => {
    loop.turn();
    health.look();
  }, LoopCheck.TURN_MS);
  timer.unref();
  const port = options["health-port"];
  const server =
    port === 0
      ? undefined
      : await keepHealthServed(
          { port, health, metrics },
          {
            onServed: (opened) => log.info("health is served", { port: opened }),
            onTaken: (error) =>
              log.error(`port ${port} for /livez, /readyz and /metrics cannot be opened, and is tried again: ${messageOf(error)}`),
          },
        );
  const figures = await serveMetrics(options["metrics-address"], metrics, {
    finding: (text) => health.find("metrics-address", text),
    info: log.info,
    error: log.error,
  });
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await figures?.[Symbol.asyncDispose]();
      await server?.[Symbol.asyncDispose]();
    },
  };
}

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
  return warningCheck("queue", () => {
    const { length, failing } = status() ?? { length: 0, failing: [] };
    if (failing.length === 0) return `${length} items wait`;
    const words = failing.map(({ key, failures, message }) => `${key} (${failures} times): ${message}`);
    return { message: words.join("; "), next: "they are repeated; their messages say what stands in the way" };
  });
}

/**
 * Checks whether addresses are left to Calico's kube-controllers. That stops this program's main duty, so it is a warning unless the
 * options ask for it.
 *
 * @param found why kube-controllers counted as present at the last look
 */
export function kubeControllersCheck(setting: ControllerOptions["calico-kube-controllers"], found: () => string | undefined): Check {
  return warningCheck("calico-kube-controllers", () => {
    const why = found();
    if (why === undefined) return "addresses are not left to Calico's kube-controllers";
    const message = `nothing is released here: addresses are left to Calico's kube-controllers: ${why}`;
    const next = "--calico-kube-controllers=present says that this is intended; =absent that Calico's kube-controllers does not run";
    return setting === "present" ? message : { message, next };
  });
}

/** Warns of what the leader has found, and decides nothing. @param well says that it has found nothing */
function findingsCheck(
  name: string,
  findings: () => readonly string[],
  well: string,
  warn: (found: readonly string[]) => Pick<CheckResult, "message" | "next">,
): Check {
  return warningCheck(name, () => {
    const found = findings();
    return found.length === 0 ? well : warn(found);
  });
}

/** @param unread pods whose annotations were not read to their end */
export function annotationsCheck(unread: () => readonly string[]): Check {
  return findingsCheck("annotations", unread, "every pod's annotations are read to their end", (pods) => ({
    message: `${count(pods.length, "pod")} with too much text or too many addresses in annotations: ${enumerate(pods)}`,
    next: "shorten the annotations of these pods; until then addresses that were allocated to them are kept, even unused ones",
  }));
}

/** @param away nodes that new pods are kept from */
export function agentsCheck(away: () => readonly string[]): Check {
  return findingsCheck("agents", away, "no node is kept from new pods for lack of an agent", (nodes) => ({
    message: `${count(nodes.length, "node")} without a ready agent, where no new pod may go: ${enumerate(nodes)}`,
    next: "see why: kubectl -n kube-system get pods -l k8s-app=tortie-node -o wide",
  }));
}

/** @param refusals why pools that the options ask for were not made */
export function firstPoolsCheck(refusals: () => readonly string[]): Check {
  return findingsCheck("first-pools", refusals, "every pool that the options ask for is there", (reasons) => ({
    message: reasons.join("; "),
    next: "set what the message says, or create an IPPool; until then no pod gets an address",
  }));
}

/** @param findings sets of labels that get no number, or have two */
export function identitiesCheck(findings: () => readonly string[]): Check {
  return findingsCheck("identities", findings, "every set of labels has one number", (found) => ({
    message: `${count(found.length, "finding")}: ${enumerate(found)}`,
    next: "docs/reference/identities.md says what each finding means; no packet depends on it",
  }));
}
