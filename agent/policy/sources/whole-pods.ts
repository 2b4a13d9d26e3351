/**
 * Watches whole pods, ten times as many bytes as their metadata, while something is needed that stands nowhere else: named ports of peers,
 * or what kubelet says of an address that no block has. With host scope nothing else proves an address, and they are always watched.
 */
import { parseAddress } from "../../../lib/addresses/address.ts";
import type { Fields } from "../../../lib/json/decode.ts";
import { decodePod, type Pod } from "../../../lib/kubernetes/objects.ts";
import type { Informers } from "../../../lib/kubernetes/watch/informers.ts";
import type { ResourceCache } from "../../../lib/kubernetes/watch/resource-cache.ts";
import type { Clock } from "../../../lib/system/waiting.ts";
import { isFinished } from "../../../lib/workload/annotations/pod-addresses.ts";
import { workloadOf } from "../endpoints.ts";
import { decodeClaims, gapOf, HEARTBEAT_SECONDS, PODS } from "./api-objects.ts";
import type { ClaimingPod, PodFacts } from "./claims.ts";
import type { Needs, SourcePart, Telling } from "./sources.ts";

/** An annotation may come a moment before the block that proves it. */
const GRACE_MS = 5_000;
/** A watch that is not needed any more goes on for so long: it may be needed again. */
const LINGER_MS = 60_000;

interface WholePod {
  readonly claims: ClaimingPod;
  readonly facts: PodFacts;
}

export interface WholePodsInput {
  /** Watches of their own, which end by themselves. */
  readonly open: () => Pick<Informers, "watch"> & AsyncDisposable;
  readonly clock: Pick<Clock, "sleep">;
  /** No other watch has the pods: they claim here, too. */
  readonly isOnly: boolean;
}

export class WholePods implements SourcePart {
  readonly #input: WholePodsInput;
  #to: Telling | undefined;
  #needs: Needs = { ports: false, facts: false };
  #watch: { readonly cache: ResourceCache<WholePod>; readonly informers: AsyncDisposable } | undefined;
  /** Ends the wait for the time at which the watch begins or ends. */
  #waiting: AbortController | undefined;

  constructor(input: WholePodsInput) {
    this.#input = input;
  }

  start(to: Telling): void {
    this.#to = to;
    if (this.#input.isOnly) this.#begin();
  }

  /** Nobody waits for a proof: whoever may patch a pod could make every ADD wait. */
  get gap(): string | undefined {
    if (!this.#input.isOnly && !this.#needs.ports) return undefined;
    return this.#watch === undefined ? "ports of pods have not been read yet" : gapOf(this.#watch.cache);
  }

  get isComplete(): boolean {
    return (!this.#input.isOnly && !this.#needs.ports) || this.#watch?.cache.state.isSynced === true;
  }

  async caughtUp(signal: AbortSignal): Promise<void> {
    await this.#watch?.cache.caughtUp(signal);
  }

  demand(needs: Needs): void {
    const [wasNeeded, isNeeded] = [this.#isNeeded, needs.ports || needs.facts];
    const isUrgent = needs.ports && !this.#needs.ports;
    this.#needs = needs;
    if (this.#input.isOnly || this.#to === undefined) return;
    if (isUrgent) this.#at(0);
    else if (isNeeded !== wasNeeded) this.#at(isNeeded ? GRACE_MS : LINGER_MS);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#to = undefined;
    this.#waiting?.abort();
    await this.#watch?.informers[Symbol.asyncDispose]();
  }

  get #isNeeded(): boolean {
    return this.#needs.ports || this.#needs.facts;
  }

  /** Begins or ends the watch after a time, as it is needed then. */
  #at(milliseconds: number): void {
    this.#waiting?.abort();
    this.#waiting = undefined;
    if (milliseconds === 0) {
      this.#begin();
      return;
    }
    const waiting = new AbortController();
    this.#waiting = waiting;
    void this.#input.clock.sleep(milliseconds, waiting.signal).then(() => {
      if (waiting.signal.aborted) return;
      if (this.#isNeeded) this.#begin();
      else this.#end();
    });
  }

  #begin(): void {
    const to = this.#to;
    if (this.#watch !== undefined || to === undefined) return;
    const informers = this.#input.open();
    const cache = informers.watch({
      name: "all pods",
      path: PODS,
      decode: decodeWhole,
      isLarge: true,
      heartbeatSeconds: HEARTBEAT_SECONDS,
    });
    this.#watch = { cache, informers };
    cache.onChange(({ key, after }) => {
      if (this.#watch?.cache !== cache) return;
      to.book.setFacts(key, after?.facts);
      if (this.#input.isOnly) to.book.setPod(key, after?.claims);
      to.changed();
    });
  }

  #end(): void {
    const watch = this.#watch;
    this.#watch = undefined;
    if (watch === undefined) return;
    void watch.informers[Symbol.asyncDispose]();
    for (const { claims } of watch.cache.list()) this.#to?.book.setFacts(`${claims.namespace}/${claims.name}`, undefined);
    this.#to?.changed();
  }
}

function decodeWhole(object: Fields): WholePod {
  const pod = decodePod(object);
  return { claims: decodeClaims(object), facts: factsOf(pod) };
}

function factsOf(pod: Pod): PodFacts {
  const texts = pod.podIPs.length > 0 ? pod.podIPs : [pod.podIP];
  return {
    node: pod.nodeName,
    isHostNetwork: pod.isHostNetwork,
    isFinished: isFinished(pod),
    podIPs: texts.map(parseAddress).filter((address) => address !== undefined),
    ports: workloadOf(pod).ports,
  };
}
