/**
 * Enforces policy on this node: puts together the engine, what tells it, what carries its answer into the kernel, and what shows it. It is
 * made when it is decided that policy is on (agent/policy/start.ts), and disposed when it is turned off.
 *
 * Nothing in the kernel changes before policies, namespaces, pods and restored endpoints are complete: a source that does not come leaves
 * everything as it was. New pods wait meanwhile.
 */
import { type EndpointRecord, isCommitted } from "../../handover/record.ts";
import { formatAddress, parseAddress } from "../../lib/addresses/address.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import type { Pod } from "../../lib/kubernetes/objects.ts";
import { SECOND_MS } from "../../lib/resident/options.ts";
import { SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import { guardedPrefixes } from "../../lib/workload/names.ts";
import type { CallPolicy, NewEndpoint } from "../../main-plugin/policy.ts";
import { PolicyEngine } from "../../policy/engine.ts";
import type { Endpoint } from "../endpoints/endpoint.ts";
import type { EndpointEvent, EndpointManager } from "../endpoints/manager.ts";
import type { AgentContext } from "../start/context.ts";
import { type FoundEnd, keyOf, PolicyEndpoints } from "./endpoints.ts";
import { Flows, type FlowTable } from "./flows.ts";
import { PolicyGate } from "./gate.ts";
import type { AgentIdentities } from "./identities/start.ts";
import { KernelPolicy } from "./kernel.ts";
import { Passes } from "./passes.ts";
import { podsElsewhere } from "./pods-elsewhere.ts";
import { Realisations } from "./realisation.ts";
import { showDrops } from "./show-drops.ts";
import type { PolicySources } from "./sources/model.ts";
import { EnforcedView } from "./status.ts";
import type { PolicyView } from "./view.ts";

const COMPARING = "policy-comparison";
const PODS_ELSEWHERE = "policy-pods-elsewhere";
const COMPARING_MS = 60_000;
/** Of a large table, whose dump takes a while. */
const COMPARING_LARGE_MS = 600_000;
const LARGE = 2_000;

export interface EnforcerParts {
  readonly manager: Pick<EndpointManager, "list">;
  readonly sources: PolicySources;
  readonly identities: AgentIdentities;
  readonly flows: FlowTable;
  /** Ends when every endpoint that an earlier agent or a plugin has left is known. */
  readonly restored: Promise<void>;
}

export class Enforcer implements AsyncDisposable {
  /** What ADD and CHECK ask. */
  readonly calls: CallPolicy;
  readonly view: PolicyView;
  readonly #context: AgentContext;
  readonly #parts: EnforcerParts;
  readonly #engine: PolicyEngine;
  readonly #kernel: KernelPolicy;
  readonly #realisations = new Realisations();
  readonly #flows: Flows;
  readonly #passes: Passes;
  readonly #endpoints: PolicyEndpoints;
  readonly #drops: ReturnType<typeof showDrops>;
  readonly #ending = new AbortController();
  readonly #aside = new AbortController();
  #isRestored = false;

  /** Begins to enforce. */
  constructor(context: AgentContext, parts: EnforcerParts) {
    const { cluster, log, options } = context;
    this.#context = context;
    this.#parts = parts;
    this.#engine = new PolicyEngine({ enforcement: options.enforcement });
    this.#kernel = kernelOf(context, parts.manager.list());
    const engine = this.#engine;
    this.#flows = new Flows({
      table: parts.flows,
      judge: (flow) => engine.judge(flow),
      state: () => engine.state,
      clock: SYSTEM_CLOCK,
      log,
    });
    this.#passes = this.#makePasses();
    this.#endpoints = new PolicyEndpoints({
      tell: (...told) => this.#tell(...told),
      pods: cluster?.pods,
      mayBeSelected: (end) => this.#mayBeSelected(end),
    });
    this.calls = this.#makeGate();
    const [endpoints, sources] = [this.#endpoints, parts.sources];
    this.#drops = showDrops(context, { engine, endpoints, sources, identityOf: (pod) => this.#identityOf(pod) });
    this.view = this.#makeView();
    this.#begin();
  }

  endpointChanged(event: EndpointEvent, { record }: Pick<Endpoint, "record">): void {
    if (event === "adopted" && record.hostInterface !== undefined) this.#guard(record.hostInterface.name);
    if (event === "ready" || event === "adopted") this.#endpoints.record(record);
    if (event !== "gone") return;
    this.#endpoints.forget(record);
    this.#flows.released(addressesOf(record));
  }

  /** Tells of every host end that has no record. */
  found(ends: readonly FoundEnd[]): void {
    for (const { hostInterface } of ends) this.#guard(hostInterface);
    this.#endpoints.found(ends);
  }

  /** Lets ADDs go that still wait for policy: somebody else enforces it, or nobody. */
  standAside(): void {
    this.#aside.abort(new Error("policy is turned off"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort(new Error("policy is turned off"));
    this.#parts.identities.join(undefined);
    await Promise.all([COMPARING, PODS_ELSEWHERE].map((name) => this.#context.controllers.remove(name)));
    this.#endpoints[Symbol.dispose]();
    await Promise.all([this.#passes.stop(), this.#parts.sources[Symbol.asyncDispose](), this.#drops[Symbol.asyncDispose]()]);
    await this.#flows.stop();
  }

  #begin(): void {
    const { manager, sources, identities } = this.#parts;
    identities.join({ ofNamespace: (name) => this.#engine.labelsOf(name), ofOwnPod: (pod) => this.#ownPod(pod)?.labels });
    for (const record of manager.list()) if (isCommitted(record)) this.#endpoints.record(record);
    sources.start(this.#realisations.noting(this.#engine), () => this.#passes.changed());
    void this.#openWhenComplete();
    this.#context.controllers.update(COMPARING, { run: this.#comparing(), intervalMs: COMPARING_MS, isJittered: true, quiet: true });
  }

  async #openWhenComplete(): Promise<void> {
    const { cluster, health, log } = this.#context;
    const begun = performance.now();
    const over = health.health.waitFor(
      "what policy needs: policies, namespaces, pods and endpoints; until all are known, policy in the kernel stays as it is",
    );
    const { signal } = this.#ending;
    try {
      await this.#parts.restored;
      this.#isRestored = true;
      await cluster?.pods.untilSynced(signal);
      this.#askForPodsElsewhere();
      await this.#parts.sources.untilSynced(signal);
      log.info("everything that policy needs is known", { milliseconds: Math.round(performance.now() - begun) });
      this.#passes.open();
    } catch (error) {
      log.debug("policy was turned off before everything was known", { error: messageOf(error) });
    } finally {
      over();
    }
  }

  /** Nothing waits for the answers: an endpoint whose pod is not known stays closed until then. */
  #askForPodsElsewhere(): void {
    const { cluster, controllers } = this.#context;
    if (cluster === undefined || this.#ending.signal.aborted) return;
    const run = podsElsewhere({ endpoints: this.#endpoints, readPod: (key) => cluster.readPod(key) });
    controllers.update(PODS_ELSEWHERE, { run, quiet: true });
  }

  /** Compares the table with what it must hold, now and then: others may change it. */
  #comparing(): () => Promise<void> {
    let comparedAt = performance.now();
    return async () => {
      const { endpoints, addresses } = this.#engine.state;
      const every = endpoints.size + addresses.size > LARGE ? COMPARING_LARGE_MS : COMPARING_MS;
      if (performance.now() - comparedAt < every / 2) return;
      comparedAt = performance.now();
      this.#passes.compare();
    };
  }

  #makePasses(): Passes {
    const { health, log } = this.#context;
    return new Passes({
      engine: this.#engine,
      table: this.#kernel,
      onTake: () => {
        this.#endpoints.judgeUncertain();
        this.#realisations.taken();
      },
      onRealised: (realised) => this.#flows.realised(realised),
      onHeld: () => {
        this.#realisations.realised();
        this.#parts.sources.demand();
      },
      onDrift: (differences) => health.metrics.sweepFound("drift", differences.length),
      onPass: (...pass) => health.metrics.policyPassed(...pass),
      clock: SYSTEM_CLOCK,
      log,
    });
  }

  #makeGate(): PolicyGate {
    const { cluster, options } = this.#context;
    return new PolicyGate({
      limitMs: options["policy-wait-seconds"] * SECOND_MS,
      endpoints: this.#endpoints,
      passes: this.#passes,
      gap: () => this.#gap(),
      untilSynced: (signal) => this.#parts.sources.untilSynced(signal),
      hasPod: (key) => cluster?.pods.get(key) !== undefined,
      readPod: cluster && ((key) => cluster.readPod(key)),
      flows: this.#flows,
      standsAside: this.#aside.signal,
      isInKernel: (hostInterface) => this.#kernel.knows(hostInterface),
      onHostInterface: (hostInterface) => this.#guard(hostInterface),
      clock: SYSTEM_CLOCK,
    });
  }

  #makeView(): PolicyView {
    return new EnforcedView({
      enforcement: this.#context.options.enforcement,
      engine: this.#engine,
      endpoints: this.#endpoints,
      passes: this.#passes,
      realisations: this.#realisations,
      cluster: this.#context.cluster,
      sources: this.#parts.sources,
      gap: () => this.#gap(),
      drops: this.#drops.drops,
      counters: () => this.#kernel.table.counters(),
      judged: () => this.#kernel.table.judged(),
      differences: async () => (this.#passes.isSettled ? this.#kernel.table.inspect(this.#engine.state) : []),
      caughtUp: (signal) => this.#caughtUp(signal),
      identityOf: (pod) => this.#identityOf(pod),
    });
  }

  /** @param key "namespace/name" of a pod anywhere in the cluster */
  #identityOf(key: string): number | undefined {
    const peer = this.#parts.sources.peer(key) ?? this.#ownPod(key);
    return peer && this.#parts.identities.ofPeer(peer);
  }

  /** What its runtime said of a pod of this node: without an API server nobody else knows it. */
  #ownPod(key: string) {
    return this.#endpoints.ofPod(key)?.pod;
  }

  /** Waits until the kernel holds, or has refused, everything that is there now. @throws as the sources do */
  async #caughtUp(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#parts.sources.caughtUp(signal), this.#context.cluster?.pods.caughtUp(signal)]);
    if (this.#passes.isOpen && this.#passes.problem === undefined) await this.#passes.settled(signal);
  }

  /** Has the kernel judge host ends that begin like this one. */
  #guard(hostInterface: string): void {
    if (this.#kernel.judge(hostInterface)) this.#passes.compare();
  }

  /**
   * Says whether the pod behind a host end may be one that a policy selects: of a pod whose labels are unknown, any policy of its namespace
   * may; of an unknown one, a policy that selects a pod of this node whose host end is not known. Without an API server any policy may.
   */
  #mayBeSelected({ pod, addresses }: NewEndpoint): boolean {
    const { cluster, options } = this.#context;
    if (options.enforcement === "never") return false;
    if (options.enforcement === "always") return true;
    if (cluster === undefined) {
      return this.#engine.policies().some(({ key }) => pod === undefined || key.startsWith(`${pod.namespace}/`));
    }
    const texts = addresses.map(formatAddress);
    return cluster.pods.list().some((one) => this.#mayBe(one, texts) && this.#engine.selects(one));
  }

  /** A status counts: the kubelet writes it. */
  #mayBe(pod: Pod, addresses: readonly string[]): boolean {
    const { isHostNetwork, phase, podIP, podIPs } = pod;
    if (isHostNetwork || phase === "Succeeded" || phase === "Failed" || this.#endpoints.ofPod(keyOf(pod)) !== undefined) return false;
    return podIP === "" || addresses.includes(podIP) || podIPs.some((one) => addresses.includes(one));
  }

  #tell(...[hostInterface, endpoint]: Parameters<PolicyEngine["setEndpoint"]>): void {
    this.#engine.setEndpoint(hostInterface, endpoint);
    this.#realisations.noteEndpoint(hostInterface);
    this.#parts.sources.setOwn(hostInterface, endpoint);
    this.#passes.changed();
  }

  /** Names what is missing before the engine knows everything, or knows it no longer. */
  #gap(): string | undefined {
    const { cluster } = this.#context;
    if (!this.#isRestored) return "the pods that were here before the agent";
    if (cluster?.pods.state.isSynced === false) return `the first list of ${cluster.pods.state.name}`;
    return this.#parts.sources.gap;
  }
}

function kernelOf({ env, host, options }: AgentContext, records: readonly EndpointRecord[]): KernelPolicy {
  const names = records.flatMap(({ hostInterface }) => hostInterface?.name ?? []);
  const prefixes = guardedPrefixes(env.FELIX_INTERFACEPREFIX, names);
  return new KernelPolicy({ host, logGroup: options["policy-log-group"], prefixes });
}

function addressesOf({ addresses }: Pick<EndpointRecord, "addresses">) {
  return addresses.flatMap(({ address }) => parseAddress(address) ?? []);
}
