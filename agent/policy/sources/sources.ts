/**
 * Puts the sources of a node together: parts that read one store each, and the book that decides whose each address is. Which parts there
 * are follows from the datastore (agent/policy/sources/open.ts).
 */
import type { Address } from "../../../lib/addresses/address.ts";
import { type Fields, isObject, isText } from "../../../lib/json/decode.ts";
import { type Clock, SYSTEM_CLOCK } from "../../../lib/system/waiting.ts";
import type { LocalEndpoint, PeerPod } from "../../../policy/model.ts";
import { AddressBook } from "./addresses.ts";
import type { AddressConflict, PolicySink, PolicySources, RefusedClaim, UnreadKind } from "./model.ts";

/** What a part tells to whom. */
export interface Telling {
  readonly book: AddressBook;
  readonly sink: Pick<PolicySink, "setNamespace" | "setPolicy">;
  /** Says that something was told. */
  changed(): void;
}

/** What is needed of pods beside their metadata. */
export interface Needs {
  /** Named ports of peers. */
  readonly ports: boolean;
  /** What kubelet says of addresses. */
  readonly facts: boolean;
}

/** Reads one store, or a part of one. */
export interface SourcePart extends AsyncDisposable {
  /** Begins to read, and returns at once. */
  start(to: Telling): void;
  /** As `PolicySources` has it. */
  readonly gap: string | undefined;
  readonly isComplete: boolean;
  /** As `PolicySources` has it; absent where what is read is read at once. */
  caughtUp?(signal: AbortSignal): Promise<void>;
  /** Asked after each change. */
  demand?(needs: Needs): void;
  /** As `PolicySources` has it. */
  setOwn?(hostInterface: string, endpoint: LocalEndpoint | undefined): void;
  unread?(): readonly UnreadKind[];
  problems?(): readonly string[];
}

/** How often a wait looks for gaps again: a watch that is followed again says so to nobody. */
const LOOK_MS = 50;

export class JoinedSources implements PolicySources {
  readonly #parts: readonly SourcePart[];
  readonly #clock: Pick<Clock, "sleep">;
  #sink: PolicySink | undefined;
  #onChange: () => void = () => {};
  #hasNews = false;
  /** The sink has taken its changes at least once, so that it knows what it needs. */
  #hasTaken = false;
  #wasComplete = false;
  /** Keys of policies that name a port in egress. */
  readonly #naming = new Set<string>();
  readonly #book = new AddressBook((key, peer) => {
    this.#hasNews = true;
    this.#sink?.setPeer(key, peer);
  });

  constructor(parts: readonly SourcePart[], clock: Pick<Clock, "sleep"> = SYSTEM_CLOCK) {
    this.#parts = parts;
    this.#clock = clock;
  }

  start(sink: PolicySink, onChange: () => void): void {
    this.#sink = sink;
    this.#onChange = onChange;
    for (const [key, peer] of this.#book.peers) sink.setPeer(key, peer);
    const telling: Telling = {
      book: this.#book,
      sink: {
        setNamespace: (name, labels) => {
          this.#hasNews = true;
          sink.setNamespace(name, labels);
        },
        setPolicy: (key, policy) => {
          this.#hasNews = true;
          if (policy !== undefined && namesPortInEgress(policy.spec)) this.#naming.add(key);
          else this.#naming.delete(key);
          sink.setPolicy(key, policy);
        },
      },
      changed: () => this.#changed(),
    };
    for (const part of this.#parts) part.start(telling);
    this.#changed();
  }

  get gap(): string | undefined {
    if (this.#sink === undefined) return "nothing is read yet";
    for (const { gap } of this.#parts) if (gap !== undefined) return gap;
    return undefined;
  }

  get isComplete(): boolean {
    this.#wasComplete ||= this.#sink !== undefined && this.#parts.every(({ isComplete }) => isComplete);
    return this.#wasComplete;
  }

  async untilSynced(signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      if (this.gap === undefined) return;
      await this.#clock.sleep(LOOK_MS, signal);
    }
  }

  async caughtUp(signal: AbortSignal): Promise<void> {
    await this.untilSynced(signal);
    await Promise.all(this.#parts.map((part) => part.caughtUp?.(signal)));
    // A part may have begun to read what another one asked for.
    await this.untilSynced(signal);
  }

  setOwn(hostInterface: string, endpoint: LocalEndpoint | undefined): void {
    this.#book.setRecord(`own ${hostInterface}`, endpoint);
    for (const part of this.#parts) part.setOwn?.(hostInterface, endpoint);
    this.#changed();
  }

  demand(): void {
    this.#hasTaken = true;
    this.#demand();
  }

  peer(key: string): PeerPod | undefined {
    return this.#book.peers.get(key);
  }

  podAt(address: Address): string | undefined {
    return this.#book.holderOf(address);
  }

  conflicts(): readonly AddressConflict[] {
    return this.#book.conflicts();
  }

  refused(): readonly RefusedClaim[] {
    return this.#book.refused();
  }

  unread(): readonly UnreadKind[] {
    return this.#parts.flatMap((part) => part.unread?.() ?? []);
  }

  problems(): readonly string[] {
    return this.#parts.flatMap((part) => part.problems?.() ?? []);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#parts.map((part) => part[Symbol.asyncDispose]()));
  }

  #demand(): void {
    const isAsked = this.#sink?.needsPortsOfPeers === true;
    // Without ports the first table would close what such policies allow, until they are there.
    const needs: Needs = { ports: isAsked || (!this.#hasTaken && this.#naming.size > 0), facts: this.#book.needsFacts };
    for (const part of this.#parts) part.demand?.(needs);
  }

  #changed(): void {
    this.#demand();
    if (!this.#hasNews) return;
    this.#hasNews = false;
    this.#onChange();
  }
}

/** Looks at a spec that nobody has validated. */
function namesPortInEgress({ egress }: Fields): boolean {
  const partsOf = (value: unknown): readonly Fields[] => (Array.isArray(value) ? value.filter(isObject) : []);
  return partsOf(egress).some(({ ports }) => partsOf(ports).some(({ port }) => isText(port)));
}
