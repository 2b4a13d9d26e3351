/**
 * Holds the answer of an ADD until the kernel judges the pod as its policies say. The endpoint is told to the policy engine before its link
 * is made, so that its pass runs meanwhile; where everything is in sync, nothing is left to wait for.
 */
import { formatAddress } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { Pod } from "../../lib/kubernetes/objects.ts";
import { type Clock, endsWithin, untilAborted, withLimit } from "../../lib/system/waiting.ts";
import { type CallPolicy, closedEnd, type NewEndpoint } from "../../main-plugin/policy.ts";
import { keyOf, type PolicyEndpoints, workloadOf } from "./endpoints.ts";
import type { Flows } from "./flows.ts";
import type { Passes } from "./passes.ts";

export interface GateParts {
  /** `--policy-wait-seconds` in milliseconds; 0: no ADD waits. */
  readonly limitMs: number;
  readonly endpoints: Pick<PolicyEndpoints, "admit" | "learn" | "isKnown" | "onTold" | "get">;
  readonly passes: Pick<Passes, "isOpen" | "isSettled" | "settled" | "problem">;
  /** Waits until the sources say what is so. @throws the signal's reason */
  readonly untilSynced: (signal: AbortSignal) => Promise<void>;
  /** Names what keeps passes from being made: a list that has not come, endpoints that are being restored. */
  readonly gap: () => string | undefined;
  /** Says whether the copy of this node's pods has this one. */
  readonly hasPod: (key: string) => boolean;
  /** Asks the API server for a pod that the copy does not have; `undefined`: there is no API server. */
  readonly readPod: ((key: string) => Promise<Pod | undefined>) | undefined;
  /** Ends the connections that addresses had before they were given, or had until they were taken. */
  readonly flows: Pick<Flows, "given" | "released">;
  /** Asks the kernel whether it judges a host end. */
  readonly isInKernel: (hostInterface: string) => boolean;
  /** Is called with each host end before it is made, in case nobody judges its name yet. */
  readonly onHostInterface: (hostInterface: string) => void;
  /** Aborted when nobody enforces policy here any more, and the node is open. */
  readonly standsAside: AbortSignal;
  readonly clock: Clock;
}

/** Limits how long a link waits for its pass; `ready` waits for the rest. */
const BEFORE_LINK_MS = 50;
/** How long the copy of this node's pods may be late before the API server is asked for one pod. */
const COPY_MS = 500;

export class PolicyGate implements CallPolicy {
  readonly #parts: GateParts;

  constructor(parts: GateParts) {
    this.#parts = parts;
  }

  async admit(endpoint: NewEndpoint, signal: AbortSignal): Promise<AsyncDisposable> {
    const { endpoints, flows, onHostInterface } = this.#parts;
    const { hostInterface, addresses } = endpoint;
    onHostInterface(hostInterface);
    const found = await this.#podOutsideOfCopy(endpoint);
    // What a repeated ADD keeps has connections of its own.
    const before = endpoints.get(hostInterface)?.addresses.map(formatAddress) ?? [];
    const given = before.length === 0 ? addresses : addresses.filter((address) => !before.includes(formatAddress(address)));
    await using undo = new AsyncDisposableStack();
    const takeBack = endpoints.admit(endpoint, found && workloadOf(found));
    undo.defer(async () => flows.released(given));
    undo.defer(async () => takeBack());
    await Promise.all([flows.given(given), this.#beforeLink(signal)]);
    return undo.move();
  }

  async ready(hostInterface: string, signal: AbortSignal): Promise<void> {
    const { limitMs, endpoints, passes, clock, gap, untilSynced, standsAside } = this.#parts;
    if (limitMs === 0) return;
    if (endpoints.isKnown(hostInterface) && passes.isSettled && gap() === undefined) return;
    const late = new Error("late");
    try {
      await withLimit(clock, { limitMs, late, signal: AbortSignal.any([signal, standsAside]) }, async (ended) => {
        await this.#untilKnown(hostInterface, ended);
        await untilSynced(ended);
        await passes.settled(ended);
      });
    } catch (error) {
      if (standsAside.aborted && !signal.aborted) return;
      if (error !== late) throw error;
      const what = gap() ?? (endpoints.isKnown(hostInterface) ? this.#filter() : this.#labels(hostInterface));
      throw new TortieError("policy-not-ready", `policy not ready: waiting for ${what} for ${limitMs / 1000} s`);
    }
  }

  differences(hostInterface: string): readonly string[] {
    return this.#parts.isInKernel(hostInterface) ? [] : [closedEnd(hostInterface)];
  }

  /**
   * Lets the pass of this endpoint end before its link comes up, where nothing else is waited for: the pod's first packet is judged then
   * as every other, and none is dropped that it would send again after a second.
   */
  async #beforeLink(signal: AbortSignal): Promise<void> {
    const { passes, gap, clock } = this.#parts;
    if (gap() !== undefined || !passes.isOpen || passes.problem !== undefined) return;
    await endsWithin(clock, BEFORE_LINK_MS, passes.settled(signal));
    signal.throwIfAborted();
  }

  /** Finds a pod that may be at the API server, or not: the ADD has not asked, and the copy may be late. */
  async #podOutsideOfCopy({ pod }: NewEndpoint): Promise<Pod | undefined> {
    const { readPod, hasPod } = this.#parts;
    if (pod === undefined || pod.uid !== undefined || readPod === undefined) return undefined;
    const key = keyOf(pod);
    if (hasPod(key)) return undefined;
    try {
      return await readPod(key);
    } catch (error) {
      throw new TortieError("policy-not-ready", `policy not ready: the labels of pod ${key} are not known: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }

  /** Asks the API server for a pod that the copy does not get: one that is bound to another node never comes. @throws the signal's reason */
  async #untilKnown(hostInterface: string, signal: AbortSignal): Promise<void> {
    const { clock, endpoints, readPod } = this.#parts;
    const late = new Error("late");
    try {
      return await withLimit(clock, { limitMs: COPY_MS, late, signal }, (ended) => untilKnown(endpoints, hostInterface, ended));
    } catch (error) {
      if (error !== late) throw error;
    }
    const pod = endpoints.get(hostInterface)?.pod;
    // A server that does not answer is named by what is waited for then.
    const found = pod && (await readPod?.(keyOf(pod)).catch(() => undefined));
    if (found !== undefined) endpoints.learn(hostInterface, found);
    await untilKnown(endpoints, hostInterface, signal);
  }

  #labels(hostInterface: string): string {
    const pod = this.#parts.endpoints.get(hostInterface)?.pod;
    return pod === undefined ? `an endpoint at ${hostInterface}` : `labels of pod ${keyOf(pod)}`;
  }

  #filter(): string {
    const { problem } = this.#parts.passes;
    return problem === undefined ? "the packet filter" : `the packet filter, which refuses: ${problem}`;
  }
}

/** @throws the signal's reason */
async function untilKnown(endpoints: GateParts["endpoints"], hostInterface: string, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = endpoints.onTold(() => {
    if (endpoints.isKnown(hostInterface)) resolve();
  });
  try {
    if (!endpoints.isKnown(hostInterface)) await untilAborted(promise, signal);
  } finally {
    stop();
  }
}
