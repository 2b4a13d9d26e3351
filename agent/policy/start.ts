/**
 * Decides whether policy is enforced on this node, and begins with it or ends it. Loaded unless `--policy` is off.
 *
 * It is on where there are policies to read, an API server or a directory, and where Felix does not enforce them. A node on which it was on
 * before stays so while its source is away. The decision is repeated now and then: Felix may come or go.
 */
import { addressesOfFlows, deleteFlows, flowsOf } from "../../dataplane/conntrack/flows.ts";
import { hasFelixChains } from "../../dataplane/linux/host-facts.ts";
import { hasPolicyTable } from "../../dataplane/nftables/policy/known-endpoints.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { CheckResult } from "../../lib/resident/health.ts";
import { SECOND_MS } from "../../lib/resident/options.ts";
import { isThere } from "../../lib/system/files.ts";
import { SYSTEM_CLOCK, withLimit } from "../../lib/system/waiting.ts";
import { type CallPolicy, type NewEndpoint, NO_POLICY } from "../../main-plugin/policy.ts";
import type { EndpointManager } from "../endpoints/manager.ts";
import type { AgentContext } from "../start/context.ts";
import type { FoundEnd } from "./endpoints.ts";
import { Enforcer } from "./enforcer.ts";
import { judgePolicy, unread } from "./health.ts";
import type { AgentIdentities } from "./identities/start.ts";
import { openNode } from "./kernel.ts";
import { openSources } from "./sources/open.ts";
import type { PolicyView } from "./view.ts";

const NAME = "policy";
/** Felix comes and goes seldom. */
const LOOK_EVERY_MS = 60_000;
const RETRY_MS = 500;
const POLICIES = "/apis/networking.k8s.io/v1/networkpolicies?limit=1";
/** The API server does not let us read policies, or has none. */
const REFUSALS: readonly number[] = [401, 403, 404];

/** What is decided; `on` is said by the enforcer being there. */
type Decision =
  | { readonly kind: "undecided"; readonly cause: string }
  | { readonly kind: "on" }
  | { readonly kind: "no-source"; readonly cause: string; readonly isWanted: boolean }
  | { readonly kind: "felix" };

export interface AgentPolicy extends AsyncDisposable {
  /** What ADD and CHECK ask. */
  readonly calls: CallPolicy;
  /** `undefined`: policy is not enforced. */
  view(): PolicyView | undefined;
  /** Told of every host end that has no record, again and again. */
  found(ends: readonly FoundEnd[]): void;
  /** Says why policy is not enforced, where it is not. */
  whyOff(): string;
  /** Says that every endpoint of this node is known. */
  restored(): void;
}

interface PolicyParts {
  readonly manager: EndpointManager;
  readonly identities: AgentIdentities;
}

/** Begins to decide, and returns at once. */
export function startPolicy(context: AgentContext, parts: PolicyParts): AgentPolicy {
  const decided = new DecidedPolicy(context, parts);
  const { controllers, health, cluster } = context;
  health.health.add({ name: NAME, decides: "shown", look: () => decided.check() });
  const run = () => decided.decide();
  controllers.update(NAME, { run, intervalMs: LOOK_EVERY_MS, errorBaseMs: RETRY_MS, quiet: true });
  // The API server answers again: whoever waits for the decision need not wait for the next try.
  cluster?.pods.untilSynced(decided.ending).then(
    () => controllers.trigger(NAME),
    () => undefined,
  );
  return decided;
}

class DecidedPolicy implements AgentPolicy {
  readonly calls: CallPolicy = {
    admit: (endpoint, signal) => this.#admit(endpoint, signal),
    ready: (hostInterface, signal) => (this.#enforcer?.calls ?? NO_POLICY).ready(hostInterface, signal),
    differences: (hostInterface) => (this.#enforcer?.calls ?? NO_POLICY).differences(hostInterface),
  };
  readonly #context: AgentContext;
  readonly #parts: PolicyParts;
  readonly #restored = Promise.withResolvers<void>();
  readonly #ending = new AbortController();
  #decision: Decision = { kind: "undecided", cause: "not checked yet" };
  #decided = Promise.withResolvers<void>();
  #enforcer: Enforcer | undefined;
  #isOpened = false;
  #found: readonly FoundEnd[] = [];
  /** Kinds that exist and are not read, as the log has said last. */
  #unread = "";

  constructor(context: AgentContext, parts: PolicyParts) {
    this.#context = context;
    this.#parts = parts;
    parts.manager.onChange((event, endpoint) => this.#enforcer?.endpointChanged(event, endpoint));
  }

  get ending(): AbortSignal {
    return this.#ending.signal;
  }

  view(): PolicyView | undefined {
    return this.#enforcer?.view;
  }

  found(ends: readonly FoundEnd[]): void {
    this.#found = ends;
    this.#enforcer?.found(ends);
  }

  whyOff(): string {
    return wordsOf(this.#decision);
  }

  restored(): void {
    this.#restored.resolve();
  }

  /** @throws Error when it cannot be decided yet; it is tried again */
  async decide(): Promise<void> {
    const decision = await this.#look().catch((error: unknown): Decision => ({ kind: "undecided", cause: messageOf(error) }));
    // What was decided holds until it can be seen that it is otherwise.
    if (decision.kind === "undecided" && this.#decision.kind !== "undecided") throw new Error(decision.cause);
    const isNew = decision.kind !== this.#decision.kind;
    this.#decision = decision;
    const isExpected = decision.kind === "on" || (decision.kind === "no-source" && !decision.isWanted);
    if (isNew) this.#context.log[isExpected ? "info" : "error"](wordsOf(decision));
    if (decision.kind === "undecided") throw new Error(decision.cause);
    if (decision.kind === "on") await this.#begin();
    else await this.#end();
    this.#decided.resolve();
    this.#tellUnread();
  }

  check(): CheckResult {
    const { kind } = this.#decision;
    const message = wordsOf(this.#decision);
    if (kind === "felix" || kind === "undecided") return { state: "warning", message, next: NEXT[kind] };
    if (kind === "no-source")
      return this.#decision.isWanted ? { state: "warning", message, next: NEXT[kind] } : { state: "disabled", message };
    const view = this.view();
    return view === undefined ? { state: "ok", message } : judgePolicy(view);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort(new Error("the agent ends"));
    // The table stays.
    await this.#enforcer?.[Symbol.asyncDispose]();
  }

  /** Nobody may believe in a policy that nobody enforces. A changed count alone is not worth a line. */
  #tellUnread(): void {
    const view = this.view();
    if (view === undefined) return;
    const kinds = view.unread().map(({ kind }) => kind);
    if (kinds.join() === this.#unread) return;
    this.#unread = kinds.join();
    const [first, ...more] = unread(view);
    if (first === undefined) this.#context.log.info("there are no policies of other kinds any more");
    else this.#context.log.error(`${[first, ...more].map(({ text }) => text).join("; ")}: ${first.next}`);
  }

  /** Looks at the host and at the sources. Nothing that is there is given up because a source is away. */
  async #look(): Promise<Decision> {
    const { host } = this.#context;
    if (hasFelixChains(host)) return { kind: "felix" };
    if (this.#enforcer !== undefined) return { kind: "on" };
    const refusal = await this.#refusalOfSource();
    if (refusal === undefined) return { kind: "on" };
    return hasPolicyTable(host) ? { kind: "undecided", cause: refusal.cause } : { kind: "no-source", ...refusal };
  }

  /** @returns why there is nothing to read policies from @throws Error when it cannot be found out */
  async #refusalOfSource(): Promise<{ readonly cause: string; readonly isWanted: boolean } | undefined> {
    const { cluster, options } = this.#context;
    const directory = options["policy-directory"];
    if (cluster === undefined) {
      return isThere(directory) ? undefined : { cause: `there is neither an API server nor ${directory}`, isWanted: false };
    }
    const { status } = await cluster.connection.exchange({ method: "GET", path: POLICIES });
    if (status === 200) return undefined;
    const cause = `the API server answered ${status} when it was asked for network policies`;
    if (REFUSALS.includes(status)) return { cause, isWanted: true };
    throw new Error(cause);
  }

  async #begin(): Promise<void> {
    if (this.#enforcer !== undefined) return;
    const { host, options } = this.#context;
    const sources = openSources(this.#context, options["policy-directory"]);
    // The directory is gone since the look.
    if (sources === undefined) throw new Error("there is nothing to read policies from any more");
    this.#enforcer = new Enforcer(this.#context, {
      ...this.#parts,
      sources,
      flows: {
        addresses: addressesOfFlows,
        of: flowsOf,
        remove: (flows) => void deleteFlows(host.netfilter, flows),
      },
      restored: this.#restored.promise,
    });
    this.#enforcer.found(this.#found);
    this.#isOpened = false;
  }

  /** Ends what was begun, and what an earlier agent left in the kernel: nobody would keep it right. */
  async #end(): Promise<void> {
    if (this.#isOpened) return;
    const { host } = this.#context;
    const enforcer = this.#enforcer;
    this.#enforcer = undefined;
    await enforcer?.[Symbol.asyncDispose]();
    await openNode(host);
    enforcer?.standAside();
    this.#isOpened = true;
  }

  async #admit(endpoint: NewEndpoint, signal: AbortSignal): Promise<AsyncDisposable> {
    const limitMs = this.#context.options["policy-wait-seconds"] * SECOND_MS;
    if (this.#decision.kind === "undecided" && limitMs > 0) await this.#untilDecided(limitMs, signal);
    return (this.#enforcer?.calls ?? NO_POLICY).admit(endpoint, signal);
  }

  async #untilDecided(limitMs: number, signal: AbortSignal): Promise<void> {
    const late = new Error("late");
    try {
      await withLimit(SYSTEM_CLOCK, { limitMs, late, signal }, () => this.#decided.promise);
    } catch (error) {
      if (error !== late) throw error;
      throw new TortieError("policy-not-ready", `policy not ready for ${limitMs / SECOND_MS} s: ${wordsOf(this.#decision)}`);
    }
  }
}

const NEXT = {
  felix: "leave policy to Felix and set --policy off, or remove Felix and what it left (docs/how-to/migrate-from-calico.md)",
  undecided: "see whether this node reaches the API server, or put the directory of policies back; --policy off turns policy off",
  "no-source": "give the agent's account the rights of manifests/node/rbac.yaml, or set --policy off",
} as const;

function wordsOf(decision: Decision): string {
  switch (decision.kind) {
    case "undecided":
      return `it is not known yet whether policy is to be enforced: ${decision.cause}`;
    case "on":
      return "policy is enforced";
    case "no-source":
      return `policy is not enforced: ${decision.cause}`;
    case "felix":
      return "policy is not enforced by Tortie: Felix's chains are in the kernel";
  }
}
