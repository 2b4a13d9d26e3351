/**
 * Leads while the lease is ours. Every write of the lease is a compare-and-swap on its resourceVersion. The leader stops writing when it
 * has not renewed for two thirds of the duration, counted from before the renewal was sent: others may take the lease only after the
 * whole duration, counted from after they saw that renewal. Between the two lies the time that a write under way may still need.
 */

import { messageOf } from "../../lib/errors/errors.ts";
import { type Fields, number, parseObject, section, text } from "../../lib/json/decode.ts";
import { type ApiClient, ApiError } from "../../lib/kubernetes/api-client.ts";
import { Lane } from "../../lib/system/lane.ts";
import { type Clock, NEVER, pauseAfter } from "../../lib/system/waiting.ts";

interface ElectorOptions {
  /** For the lease alone, so that no long list stands before a renewal. */
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly namespace: string;
  readonly name: string;
  readonly identity: string;
  readonly durationMs: number;
  readonly log: (message: string) => void;
}

export class Elector {
  readonly #options: ElectorOptions;
  /** The lease as last seen, and since when it has been so. */
  #seen: { readonly lease: Lease; readonly since: number } | undefined;
  /** On the clock; 0 while another leads. */
  #leadsUntil = 0;
  #problem: string | undefined;

  constructor(options: ElectorOptions) {
    this.#options = options;
  }

  /** Says whether a write may begin now. */
  get mayWrite(): boolean {
    return this.#options.clock.now() < this.#leadsUntil;
  }

  /** Says how long a write may take that begins at the last moment. */
  get writeLimitMs(): number {
    return this.#options.durationMs / 4;
  }

  /** Describes for people who leads. */
  get description(): string {
    if (this.mayWrite) return "this controller leads";
    const holder = this.#seen?.lease.holder ?? "";
    return this.#problem ?? (holder === "" ? "nobody leads yet" : `${holder} leads`);
  }

  /** Returns the last failure to read or write the lease; `undefined` once that has succeeded. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /**
   * Tries for the lease until the signal ends it; each time that it is ours, `lead` runs until its own signal is aborted, and the next try
   * waits for its end. A lease that is held when the signal comes is given back, and so is one whose `lead` fails: another controller may
   * have more luck.
   */
  async run(lead: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
    const { clock, durationMs, log } = this.#options;
    let failures = 0;
    while (!signal.aborted) {
      await this.#try();
      if (!this.mayWrite) {
        // Jitter, so that several do not ask at the same moment for ever.
        await clock.sleep(this.#retryMs * (1 + clock.random()), signal);
        continue;
      }
      log("this controller leads");
      const begun = clock.now();
      const hasFailed = await this.#lead(lead, signal);
      log("this controller leads no more");
      failures = hasFailed && clock.now() - begun < durationMs ? failures + 1 : 0;
      if (failures === 0) continue;
      await this.#giveBack();
      await clock.sleep(pauseAfter(failures, { base: this.#retryMs, longest: durationMs }, clock), signal);
    }
    await this.#giveBack();
  }

  get #retryMs(): number {
    return this.#options.durationMs / 8;
  }

  /** @returns whether `lead` has failed */
  async #lead(lead: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<boolean> {
    const { clock, log } = this.#options;
    const term = new AbortController();
    const ended = AbortSignal.any([term.signal, signal]);
    const leading = lead(ended)
      .then(() => false)
      .catch((error: unknown) => {
        log(`leading failed: ${messageOf(error)}`);
        return true;
      })
      .finally(() => term.abort(new Error("the work of the leader has ended")));
    while (!ended.aborted) {
      await clock.sleep(Math.min(this.#retryMs, Math.max(this.#leadsUntil - clock.now(), 0)), ended);
      if (ended.aborted) break;
      // A renewal that hangs must not keep the term open.
      const renewal = this.#try();
      const over = new AbortController();
      await Promise.race([renewal, clock.sleep(Math.max(this.#leadsUntil - clock.now(), 0), over.signal)]);
      over.abort();
      if (!this.mayWrite) term.abort(new Error(`the lease was not renewed: ${this.#problem ?? "no answer in time"}`));
    }
    return await leading;
  }

  /** Reads the lease, and creates, renews or takes it where that is due. Never rejects. */
  async #try(): Promise<void> {
    const { clock, identity } = this.#options;
    try {
      const lease = await this.#read();
      this.#note(lease);
      const step = nextStep(lease, identity, this.#seen === undefined ? 0 : clock.now() - this.#seen.since);
      this.#problem = undefined;
      if (step === "wait") {
        this.#leadsUntil = 0;
        return;
      }
      const sent = clock.now();
      this.#note(await this.#write(step === "create" ? undefined : lease, identity));
      this.#leadsUntil = sent + (this.#options.durationMs * 2) / 3;
    } catch (error) {
      // Another was faster: the next try sees who.
      if (error instanceof ApiError && error.status === 409) return;
      const problem = messageOf(error);
      if (problem !== this.#problem) this.#options.log(`the lease: ${problem}`);
      this.#problem = problem;
    }
  }

  #note(lease: Lease | undefined): void {
    if (lease === undefined) this.#seen = undefined;
    else if (this.#seen === undefined || !isSameTenure(this.#seen.lease, lease)) this.#seen = { lease, since: this.#options.clock.now() };
    else this.#seen = { lease, since: this.#seen.since };
  }

  async #read(): Promise<Lease | undefined> {
    const { client } = this.#options;
    try {
      return decodeLease(parseObject(await client.request({ method: "GET", path: this.#path, timeoutMs: this.writeLimitMs })));
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  async #write(before: Lease | undefined, holder: string, durationSeconds = this.#options.durationMs / 1000): Promise<Lease> {
    const { client, clock, namespace, name } = this.#options;
    const body = JSON.stringify(leaseObject({ namespace, name, holder, durationSeconds, now: clock.date() }, before));
    const isNew = before === undefined;
    const path = isNew ? this.#path.slice(0, this.#path.lastIndexOf("/")) : this.#path;
    return decodeLease(parseObject(await client.request({ method: isNew ? "POST" : "PUT", path, body, timeoutMs: this.writeLimitMs })));
  }

  /** Writes a short duration and no holder, as client-go does, so that the next one need not wait. */
  async #giveBack(): Promise<void> {
    const lease = this.#seen?.lease;
    const mayWrite = this.mayWrite;
    this.#leadsUntil = 0;
    if (!mayWrite || lease?.holder !== this.#options.identity) return;
    try {
      await this.#write(lease, "", 1);
    } catch (error) {
      this.#options.log(`the lease is left to run out: ${messageOf(error)}`);
    }
  }

  get #path(): string {
    const { namespace, name } = this.#options;
    return `/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/leases/${encodeURIComponent(name)}`;
  }
}

type Fence = Pick<Elector, "mayWrite" | "writeLimitMs">;

/**
 * Makes a client whose writes stop with the lease: looks at it for the last time before each of them.
 * @param connections of `client`: the wait for one of them comes before the look at the lease
 */
export function fencedClient(client: ApiClient, fence: Fence, connections: number): ApiClient {
  const lane = new Lane({ running: connections });
  return {
    get server() {
      return client.server;
    },
    request(request) {
      return lane.run(NEVER, async () => {
        if (request.method === "GET") return client.request(request);
        if (!fence.mayWrite) throw new ApiError(`${request.method} ${request.path}: not sent, this controller does not lead any more`);
        return client.request({ ...request, timeoutMs: Math.min(request.timeoutMs ?? fence.writeLimitMs, fence.writeLimitMs) });
      });
    },
    close: () => client.close(),
  };
}

/**
 * The lease of coordination.k8s.io that says which controller leads, in the form that client-go's leader election uses, so that
 * `kubectl get lease` shows it as any other.
 */
export interface Lease {
  readonly resourceVersion: string;
  /** Empty: there is no leader. */
  readonly holder: string;
  readonly durationSeconds: number;
  /** As stored; never compared with a clock of this machine. */
  readonly renewTime: string;
  readonly acquireTime: string;
  readonly transitions: number;
}

export function decodeLease(object: Fields): Lease {
  const spec = section(object, "spec");
  return {
    resourceVersion: text(section(object, "metadata"), "resourceVersion"),
    holder: text(spec, "holderIdentity"),
    durationSeconds: number(spec, "leaseDurationSeconds"),
    renewTime: text(spec, "renewTime"),
    acquireTime: text(spec, "acquireTime"),
    transitions: number(spec, "leaseTransitions"),
  };
}

type Step = "create" | "renew" | "take" | "wait";

/**
 * Decides what to do about the lease as it was read. Clocks of two machines are never compared: a lease is over when it has been seen unchanged
 * for its whole duration on this machine's own clock.
 *
 * @param unchangedForMs how long this controller has seen the lease as it is
 */
export function nextStep(lease: Lease | undefined, identity: string, unchangedForMs: number): Step {
  if (lease === undefined) return "create";
  if (lease.holder === identity) return "renew";
  if (lease.holder === "") return "take";
  return unchangedForMs >= lease.durationSeconds * 1000 ? "take" : "wait";
}

/** Compares what the holder writes: other changes of the object do not count. */
export function isSameTenure(a: Lease, b: Lease): boolean {
  return a.holder === b.holder && a.renewTime === b.renewTime && a.acquireTime === b.acquireTime && a.transitions === b.transitions;
}

interface LeaseWrite {
  readonly namespace: string;
  readonly name: string;
  /** Empty gives the lease back. */
  readonly holder: string;
  readonly durationSeconds: number;
  readonly now: Date;
}

/** Makes the whole object, to be created, or to replace `before` if the server still has it at that version. */
export function leaseObject({ namespace, name, holder, durationSeconds, now }: LeaseWrite, before: Lease | undefined): Fields {
  const isNewTenure = before === undefined || (before.holder !== holder && holder !== "");
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name, namespace, ...(before && { resourceVersion: before.resourceVersion }) },
    spec: {
      holderIdentity: holder,
      leaseDurationSeconds: durationSeconds,
      acquireTime: isNewTenure || before.acquireTime === "" ? microTime(now) : before.acquireTime,
      renewTime: microTime(now),
      leaseTransitions: before === undefined ? 0 : before.transitions + (isNewTenure ? 1 : 0),
    },
  };
}

/** Formats RFC 3339 with six digits, the only form that MicroTime is read in. */
function microTime(date: Date): string {
  return date.toISOString().replace("Z", "000Z");
}
