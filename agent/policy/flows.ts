/**
 * Ends connections that policy no longer allows, or that were another pod's. The packet filter judges the original direction of a connection
 * on every packet, so a revoked one stops by itself; but what only flows back, as the answer of a UDP service that goes on sending, passes
 * as a reply for as long as its entry lives. Such entries are judged again when a permission goes, and deleted.
 *
 * An entry of TCP stays: without it the next segment of the server would be taken for a new connection of the server (nf_conntrack_tcp_loose).
 */
import type { TrackedFlow } from "../../dataplane/conntrack/message.ts";
import { type EndpointPolicy, isEnforced, type PacketPolicy, type Permission } from "../../dataplane/packet-policy.ts";
import { type Address, formatAddress, parseAddress } from "../../lib/addresses/address.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import { type Clock, nextTurn } from "../../lib/system/waiting.ts";
import type { Flow, Judgement } from "../../policy/model.ts";
import type { Realised } from "./passes.ts";

export interface FlowTable {
  /** Lists, by their text, all addresses that entries have. */
  addresses(): Promise<Iterable<string>>;
  /** Lists entries in which one of the addresses is an end: another thread walks through the kernel's whole table, for 10 ms and more. */
  of(addresses: readonly Address[]): Promise<readonly TrackedFlow[]>;
  /** Succeeds for one that is gone. */
  remove(flows: readonly TrackedFlow[]): void;
}

export interface FlowParts {
  readonly table: FlowTable;
  readonly judge: (flow: Flow) => Judgement;
  readonly state: () => PacketPolicy;
  readonly clock: Pick<Clock, "sleep">;
  readonly log: Pick<AgentLog, "info" | "error">;
}

const TCP = 6;
/** Between two looks at entries that a change may concern. */
const LOOK_EVERY_MS = 1_000;
/** Gathers the addresses of pods that go: each look costs as much for one as for all. */
const RELEASED_MS = 1_000;
/** Judged, or ended, without a pause of the event loop. */
const SLICE = 200;

export class Flows {
  readonly #parts: FlowParts;
  /** Of each endpoint, what the kernel held at the last look. */
  readonly #before = new Map<string, EndpointPolicy>();
  /** Addresses whose entries are to be judged again. */
  #concerned = new Map<string, Address>();
  #running: Promise<void> | undefined;
  /** Addresses that may have entries of an earlier pod. */
  readonly #used = new Set<string>();
  #isListed = false;
  /** Addresses among them whose pods have gone since the last look. */
  readonly #released = new Map<string, Address>();
  #gathering: Promise<void> | undefined;
  /** Ends one after the other: what is found for an address that is given meanwhile would be its new pod's. */
  #ending: Promise<void>;
  readonly #stopping = new AbortController();

  constructor(parts: FlowParts) {
    this.#parts = parts;
    this.#ending = this.#listUsed();
  }

  /** Ends what is left of an earlier pod's connections before its address is another pod's. Costs nothing where there can be none. */
  async given(addresses: readonly Address[]): Promise<void> {
    if (!this.#isListed || addresses.some((address) => this.#used.has(formatAddress(address)))) await this.#end(addresses);
  }

  /** Ends soon the connections of addresses whose pod has gone; those of a burst together. */
  released(addresses: readonly Address[]): void {
    for (const address of addresses) {
      this.#used.add(formatAddress(address));
      this.#released.set(formatAddress(address), address);
    }
    this.#gathering ??= this.#endReleased();
  }

  /** Takes note of what a pass has brought into the kernel, and judges behind it the entries that this may end. */
  realised(realised: Realised): void {
    if (realised === "all") {
      this.#before.clear();
      for (const [name, policy] of this.#parts.state().endpoints) {
        if (isEnforced(policy)) this.#concern(policy.addresses);
        this.#before.set(name, policy);
      }
    } else this.#compare(realised);
    if (this.#concerned.size > 0) this.#running ??= this.#run();
  }

  /** Waits for the looks that are under way. */
  async stop(): Promise<void> {
    this.#concerned.clear();
    this.#released.clear();
    this.#stopping.abort();
    await Promise.all([this.#running, this.#gathering]);
    await this.#ending;
  }

  async #listUsed(): Promise<void> {
    const { table, log } = this.#parts;
    try {
      for (const address of await table.addresses()) this.#used.add(address);
    } catch (error) {
      log.error(`connections cannot be listed, so that those of pods that have gone are not ended: ${messageOf(error)}`);
    }
    this.#isListed = true;
  }

  async #endReleased(): Promise<void> {
    while (this.#released.size > 0) {
      await this.#parts.clock.sleep(RELEASED_MS, this.#stopping.signal);
      const released = [...this.#released.values()];
      this.#released.clear();
      await this.#end(released);
    }
    this.#gathering = undefined;
  }

  #end(addresses: readonly Address[]): Promise<void> {
    this.#ending = this.#ending.then(() => this.#endAll(addresses.filter((address) => this.#used.has(formatAddress(address)))));
    return this.#ending;
  }

  async #endAll(addresses: readonly Address[]): Promise<void> {
    if (addresses.length === 0) return;
    try {
      await this.#remove(await this.#parts.table.of(addresses), () => true);
      for (const address of addresses) this.#used.delete(formatAddress(address));
    } catch (error) {
      this.#parts.log.error(`connections of ${addresses.map(formatAddress).join(", ")} are not ended: ${messageOf(error)}`);
    }
  }

  /** Removes entries, with pauses for whatever else goes on. @returns how many there were */
  async #remove(entries: readonly TrackedFlow[], isMeant: (entry: TrackedFlow) => boolean): Promise<number> {
    let removed = 0;
    for (let at = 0; at < entries.length; at += SLICE) {
      const meant = entries.slice(at, at + SLICE).filter(isMeant);
      if (meant.length > 0) this.#parts.table.remove(meant);
      removed += meant.length;
      await nextTurn();
    }
    return removed;
  }

  #compare({ endpoints, moved, blocks }: Exclude<Realised, "all">): void {
    for (const [name, after] of endpoints) {
      const before = this.#before.get(name);
      if (after === undefined) this.#before.delete(name);
      else this.#before.set(name, after);
      if (before !== undefined && after !== undefined && hasShrunk(before, after)) this.#concern(after.addresses);
    }
    // One that comes has no connections yet.
    this.#concern(moved.flatMap((text) => parseAddress(text) ?? []));
    if (blocks !== undefined) for (const policy of this.#before.values()) if (isEnforced(policy)) this.#concern(policy.addresses);
  }

  #concern(addresses: readonly Address[]): void {
    for (const address of addresses) this.#concerned.set(formatAddress(address), address);
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#parts;
    // Behind the pass, and behind whoever waits for it.
    await nextTurn();
    while (this.#concerned.size > 0) {
      const concerned = [...this.#concerned.values()];
      this.#concerned = new Map();
      try {
        await this.#judge(concerned);
      } catch (error) {
        log.error(`running connections are not judged again: ${messageOf(error)}`);
      }
      await clock.sleep(LOOK_EVERY_MS, this.#stopping.signal);
    }
    this.#running = undefined;
  }

  async #judge(concerned: readonly Address[]): Promise<void> {
    const { table, log } = this.#parts;
    const entries = (await table.of(concerned)).filter(({ protocol }) => protocol !== TCP);
    const ended = await this.#remove(entries, (entry) => this.#isDenied(entry));
    if (ended > 0) log.info("connections that policy no longer allows are ended", { connections: ended });
  }

  /** Judges by what the packet filter saw: behind the translation of a Service's address, and before that of the source. */
  #isDenied({ protocol, original, reply }: TrackedFlow): boolean {
    const flow = { source: original.source, destination: reply.source, protocol, port: reply.sourcePort };
    const { egress, ingress } = this.#parts.judge(flow);
    // The names of another node's ports need not be known here: that node judges its own pods.
    return [egress, ingress].some((side) => side?.verdict === "deny" && !side.lacksPorts);
  }
}

function hasShrunk(before: EndpointPolicy, after: EndpointPolicy): boolean {
  return (["ingress", "egress"] as const).some((direction) => {
    const [old, now] = [before[direction], after[direction]];
    if (now === undefined) return false;
    if (old === undefined) return true;
    return [...old].some(([name, permission]) => !covers(now.get(name), permission));
  });
}

function covers(wide: Permission | undefined, narrow: Permission): boolean {
  if (wide === "all" || wide === narrow) return true;
  if (wide === undefined || narrow === "all") return false;
  return narrow.every(({ protocol, first, last }) =>
    wide.some((allowed) => allowed.protocol === protocol && allowed.first <= first && last <= allowed.last),
  );
}
