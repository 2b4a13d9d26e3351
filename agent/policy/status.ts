/** Answers what the rest of the agent asks about policy (view.ts), from the engine, the sources and the passes. */
import type { DropCount, JudgedCount } from "../../dataplane/nftables/policy/counters.ts";
import { type Address, formatAddress } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { SECOND_MS } from "../../lib/resident/options.ts";
import { inTime } from "../../lib/system/waiting.ts";
import type { PolicyEngine } from "../../policy/engine.ts";
import type { Enforcement, Flow, Judgement, NamedPort, PolicyStatus } from "../../policy/model.ts";
import type { AgentCluster } from "../start/context.ts";
import { keyOf, type PolicyEndpoints, workloadOf } from "./endpoints.ts";
import type { Passes } from "./passes.ts";
import type { Realisations } from "./realisation.ts";
import type { PolicySources } from "./sources/model.ts";
import type { DropHistory, PendingEndpoint, PolicyFigures, PolicyView, Realisation, ViewedEndpoint } from "./view.ts";

/** How long somebody at a terminal waits for the ports of a pod. */
const PORTS_MS = 5_000;

/** What is asked of the enforcer itself. */
type Asked = Pick<PolicyView, "enforcement" | "drops" | "counters" | "judged" | "differences" | "caughtUp" | "identityOf">;

export interface ViewParts extends Asked {
  readonly engine: PolicyEngine;
  readonly endpoints: PolicyEndpoints;
  readonly passes: Passes;
  readonly realisations: Realisations;
  /** `undefined`: there is no API server. */
  readonly cluster: Pick<AgentCluster, "pods" | "readPod"> | undefined;
  readonly sources: PolicySources;
  /** As the gate has it. */
  readonly gap: () => string | undefined;
}

export class EnforcedView implements PolicyView {
  readonly #parts: ViewParts;

  constructor(parts: ViewParts) {
    this.#parts = parts;
  }

  get enforcement(): Enforcement {
    return this.#parts.enforcement;
  }

  get drops(): DropHistory {
    return this.#parts.drops;
  }

  gaps(): readonly string[] {
    const { passes, sources } = this.#parts;
    const problem = passes.problem === undefined ? [] : [`the packet filter refuses: ${passes.problem}`];
    return [...this.unsynced(), ...problem, ...sources.problems()];
  }

  unsynced(): readonly string[] {
    const missing = this.#parts.gap();
    return missing === undefined ? [] : [missing];
  }

  unread() {
    return this.#parts.sources.unread();
  }

  conflicts() {
    return this.#parts.sources.conflicts();
  }

  figures(): PolicyFigures {
    const { endpoints, addresses, blocks } = this.#parts.engine.state;
    const classes = new Set([...addresses.values(), ...blocks.map((block) => block.class)]);
    let elements = 2 * (endpoints.size + addresses.size + blocks.length);
    for (const { ingress, egress } of endpoints.values()) {
      for (const permissions of [ingress, egress]) {
        for (const [name, permission] of permissions ?? []) {
          classes.add(name);
          elements += permission === "all" ? 1 : permission.length;
        }
      }
    }
    return { classes: classes.size, elements };
  }

  policies(): readonly PolicyStatus[] {
    return this.#parts.engine.policies();
  }

  judge(flow: Flow): Judgement {
    return this.#parts.engine.judge(flow);
  }

  isClosed(hostInterface: string): boolean {
    return !this.#parts.endpoints.isKnown(hostInterface);
  }

  endpoints(): readonly ViewedEndpoint[] {
    return this.#parts.endpoints.list().map(({ hostInterface, addresses, pod }) => ({ hostInterface, addresses, pod: pod && keyOf(pod) }));
  }

  addressesOf(pod: string): readonly Address[] {
    const own = this.endpoints().find((endpoint) => endpoint.pod === pod);
    return own?.addresses ?? this.#parts.sources.peer(pod)?.addresses ?? [];
  }

  podAt(address: Address): string | undefined {
    const text = formatAddress(address);
    const own = this.endpoints().find(({ addresses }) => addresses.some((one) => formatAddress(one) === text));
    return own?.pod ?? this.#parts.sources.podAt(address);
  }

  identityOf(pod: string): number | undefined {
    return this.#parts.identityOf(pod);
  }

  async portsOf(pod: string): Promise<readonly NamedPort[]> {
    const { cluster, sources } = this.#parts;
    const known = sources.peer(pod)?.ports;
    if (known !== undefined) return known;
    if (cluster === undefined) throw new Error("this node has no API server to ask");
    const late = new Error(`the API server has not answered for ${PORTS_MS / SECOND_MS} s`);
    const found = cluster.pods.get(pod) ?? (await inTime(PORTS_MS, late, cluster.readPod(pod)));
    if (found === undefined) throw new Error("the API server has no such pod");
    return workloadOf(found).ports;
  }

  realisation(policy: string): Realisation {
    const { realisations, engine } = this.#parts;
    const selected = new Set(engine.policies().find(({ key }) => key === policy)?.endpoints);
    const isAwaited = realisations.isAwaited(policy);
    return {
      resourceVersion: realisations.versionOf(policy),
      pending: isAwaited ? this.#all() : this.pending().filter(({ hostInterface }) => selected.has(hostInterface)),
    };
  }

  pending(): readonly PendingEndpoint[] {
    const { endpoints, realisations, passes } = this.#parts;
    if (!passes.isOpen || passes.problem !== undefined) return this.#all();
    const awaited = realisations.awaitedEndpoints;
    return endpoints.list().flatMap(({ hostInterface, pod }) => {
      if (!endpoints.isKnown(hostInterface))
        return [{ hostInterface, reason: `labels of pod ${pod?.namespace}/${pod?.name} are not known` }];
      return awaited.has(hostInterface) ? [{ hostInterface, reason: UNDER_WAY }] : [];
    });
  }

  caughtUp(signal: AbortSignal): Promise<void> {
    return this.#parts.caughtUp(signal);
  }

  changed(signal: AbortSignal): Promise<void> {
    return this.#parts.passes.ended(signal);
  }

  differences(): Promise<readonly string[]> {
    return this.#parts.differences();
  }

  async mend(signal: AbortSignal): Promise<readonly string[]> {
    const { passes, gap } = this.#parts;
    if (!passes.isOpen) throw new TortieError("policy-not-ready", `policy not ready: waiting for ${gap() ?? "the first pass"}`);
    const differences = await this.differences();
    await passes.compared(signal);
    return differences;
  }

  counters(): Promise<readonly DropCount[]> {
    return this.#parts.counters();
  }

  judged(): Promise<readonly JudgedCount[]> {
    return this.#parts.judged();
  }

  /** Lists every endpoint as waiting: what the next pass changes is not computed yet. */
  #all(): readonly PendingEndpoint[] {
    const { passes, gap, endpoints } = this.#parts;
    const problem = passes.problem === undefined ? UNDER_WAY : `the packet filter refuses: ${passes.problem}`;
    const reason = passes.isOpen ? problem : `waiting for ${gap() ?? "the first pass"}`;
    return endpoints.list().map(({ hostInterface }) => ({ hostInterface, reason }));
  }
}

const UNDER_WAY = "its pass is under way";
