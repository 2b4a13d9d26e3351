/**
 * Determines which ranges this node has, publishes them to those who need them, and follows changes (A§1). Two background
 * tasks do it: one decides, whenever the node object changes and every half minute for the host's routes; one keeps the node's
 * annotations as decided. Nothing in here ends the process.
 */

import { rmSync } from "node:fs";
import type { HostScopeFiles } from "../../../ipam-plugin/host-scope/files.ts";
import type { HostScope } from "../../../ipam-plugin/host-scope/host-scope.ts";
import { encodeNodeRecord, type FamilyRecord, familyOf, type NodeRecord } from "../../../ipam-plugin/host-scope/node-record.ts";
import { hostScopeWith, recordOfThisBoot } from "../../../ipam-plugin/host-scope/open.ts";
import { hostRange } from "../../../ipam-plugin/host-scope/range.ts";
import { type Address, type Family, formatAddress, parseAddress } from "../../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../../lib/errors/errors.ts";
import type { Tasks } from "../../../lib/resident/tasks.ts";
import type { Clock } from "../../../lib/system/waiting.ts";
import { writeWhole } from "../../../lib/system/write-whole.ts";
import { annotationPatch, healthAnnotation, routerAnnotation } from "./annotations.ts";
import { AutomaticRanges, type Contention } from "./contention.ts";
import { type NodeFacts, type NodeObjects, Waiting, type WaitingState } from "./node-object.ts";
import type { NodeCidrOptions } from "./options.ts";
import { chooseHostAddress, exclusionsOf, HEALTH, type HostFacts, ownAddress, ROUTER } from "./own-addresses.ts";
import { decideRanges, describeRange, entries, hasAutomatic, isSame, type Ranges, type SourcedRange } from "./sources.ts";

const DECIDING = "node-cidr";
export const ANNOTATING = "update-k8s-node-annotations";
/** For the host's routes, whose changes are not announced. */
const LOOK_AGAIN_MS = 30_000;
/** Of the pause before the first repetition; it doubles (A§1.3). */
const FIRST_PAUSE_MS = 200;
const RECORD_MODE = 0o600;
/** For the watch to show what was written. */
const SHOWN_WITHIN_MS = 5_000;
const LOOK_MS = 50;

export interface NodeCidrParts {
  readonly options: NodeCidrOptions;
  readonly node: string;
  readonly bootId: string;
  readonly files: HostScopeFiles;
  readonly strategy: NodeRecord["strategy"];
  readonly cooldownMs: number;
  /** Router and health addresses are kept, and the node is annotated: `--ipam host-scope`. */
  readonly isHostScopeNode: boolean;
  /** The annotations may be written. */
  readonly annotates: boolean;
  /** Begins to watch the node object; `undefined` outside Kubernetes. */
  readonly cluster: (() => NodeObjects) | undefined;
  readonly readHost: () => HostFacts;
  readonly controllers: Tasks;
  readonly clock: Clock;
  readonly log: { info(message: string): void; error(message: string): void };
  /** `--node-wait-fatal`: told when nothing is known after so long. */
  readonly giveUp?: { readonly afterMs: number; readonly end: (message: string) => void };
}

export class NodeCidr {
  /** Gives addresses of the ranges as they are known at each moment. */
  readonly hostScope: HostScope;
  readonly #parts: NodeCidrParts;
  readonly #waiting: Waiting;
  readonly #known = Promise.withResolvers<void>();
  /** Each thing that is worth a word is said once. */
  readonly #said = new Set<string>();
  #record: NodeRecord | undefined;
  #decided: Ranges = {};
  #shadowing: readonly string[] = [];
  #isStarted = false;
  #cluster: NodeObjects | undefined;
  #isRecordOfAnotherNode = false;

  constructor(parts: NodeCidrParts) {
    this.#parts = parts;
    this.#waiting = new Waiting(parts.clock, parts.log);
    const { record, problem, isOfAnotherNode = false } = earlierRecord(parts.files, parts.node);
    if (problem !== undefined) this.#sayOnce(problem);
    this.#record = record;
    this.#isRecordOfAnotherNode = isOfAnotherNode;
    this.hostScope = hostScopeWith(parts.files, { record: () => this.#record, strategy: parts.strategy, cooldownMs: parts.cooldownMs });
  }

  /** Returns what is known now: from an earlier start of this boot until this process has decided. */
  get record(): NodeRecord | undefined {
    return this.#record;
  }

  /** Says what is being waited for; `undefined` when the ranges are decided. */
  get waiting(): WaitingState | undefined {
    const { state } = this.#waiting;
    if (state?.what !== "node-object" || this.#cluster === undefined || this.#cluster.own() !== undefined) return state;
    // The cause differs with each try.
    return { ...state, cause: this.#cluster.problem() };
  }

  /** Lists routes that hide a range from the node itself (A§4.5). */
  get shadowing(): readonly string[] {
    return this.#shadowing;
  }

  /** Says whether an earlier start has left ranges behind, which plugins use. */
  get hasRecord(): boolean {
    return this.#record !== undefined || this.#isRecordOfAnotherNode;
  }

  /** Begins to find out, and never ends; calling it again changes nothing. */
  start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    const { controllers, cluster, files } = this.#parts;
    if (this.#isRecordOfAnotherNode) forgetRecord(files);
    this.#cluster = cluster?.();
    controllers.update(DECIDING, {
      run: (signal) => this.#decide(signal),
      intervalMs: LOOK_AGAIN_MS,
      errorBaseMs: FIRST_PAUSE_MS,
      quiet: true,
    });
    this.#cluster?.onChange(() => controllers.trigger(DECIDING));
  }

  /** Resolves when the ranges have been decided by this process. */
  untilKnown(): Promise<void> {
    return this.#known.promise;
  }

  async #decide(signal: AbortSignal): Promise<void> {
    const { options, log, annotates } = this.#parts;
    const cluster = this.#cluster;
    const node = cluster?.own();
    if (cluster !== undefined && node === undefined) return this.#waitFor("node-object", cluster.problem());
    const host = this.#parts.readHost();
    const decision = decideRanges({ options, node, hostAddress: this.#hostAddress(4, host), decided: this.#decided });
    for (const warning of decision.warnings) this.#sayOnce(warning);
    const [missing] = decision.missing;
    if (missing !== undefined) return this.#waitFor("node-cidr-missing", missing);
    const isMade = Object.values(decision.ranges).some(({ source }) => source === "automatic");
    if (cluster !== undefined && isMade && !annotates) {
      return this.#waitFor("node-cidr-missing", "other nodes could not see an automatic range: it needs --annotate-k8s-node");
    }
    const contention = await this.#contention(decision.ranges);
    signal.throwIfAborted();
    if (contention.outcome === "taken" || contention.outcome === "contested") return this.#waitForRange(contention);
    if (contention.outcome === "yielded") this.#sayOnce(`range-overlap: ${contention.cause}`);
    if (!isSame(this.#decided, decision.ranges))
      log.info(`ranges of this node: ${Object.values(decision.ranges).map(describeRange).join(", ")}`);
    this.#decided = decision.ranges;
    await this.#adopt(decision.ranges, node, host);
    signal.throwIfAborted();
    this.#waiting.over();
    this.#known.resolve();
    this.#annotate();
  }

  #waitFor(what: string, cause: string): void {
    this.#waiting.for(what, cause);
    const { giveUp, clock } = this.#parts;
    if (giveUp === undefined || clock.now() - (this.waiting?.sinceMs ?? 0) < giveUp.afterMs) return;
    giveUp.end(`Unable to derive PodCIDR from Kubernetes node resource, giving up: ${cause}`);
  }

  /** Looks at automatic ranges, which were chosen without asking the cluster, with each decision: another node may have them too. */
  async #contention(ranges: Ranges): Promise<Contention> {
    const cluster = this.#cluster;
    if (cluster === undefined) return { outcome: "free" };
    try {
      return await new AutomaticRanges(cluster, this.#parts.node).prove(ranges, hasAutomatic(this.#record, ranges));
    } catch (error) {
      // The decision holds, and only this look is missing.
      if (isSame(this.#decided, ranges)) return { outcome: "free" };
      this.#waitFor("node-list", messageOf(error));
      throw error;
    }
  }

  /** Stops giving addresses of a range that is another node's, here and in plugins. @throws TortieError when it is soon free */
  #waitForRange({ outcome, cause }: Exclude<Contention, { outcome: "free" }>): void {
    if ([this.#record?.ipv4, this.#record?.ipv6].some((known) => known?.source === "automatic")) {
      this.#record = undefined;
      this.#decided = {};
      forgetRecord(this.#parts.files);
    }
    this.#waitFor("range-overlap", cause);
    if (outcome === "contested") throw new TortieError("range-overlap", cause);
  }

  /** Makes the ranges hold: first in memory, since the own addresses are granted from them, then in the file. */
  async #adopt(ranges: Ranges, node: NodeFacts | undefined, host: HostFacts): Promise<void> {
    const before = this.#record;
    const first = this.#recordOf(ranges, {}, node, host);
    this.#record = { ...first, exclusions: [...first.exclusions, ...(before?.exclusions ?? [])] };
    const own: Partial<Record<Family, Pick<FamilyRecord, "router" | "health">>> = {};
    if (this.#parts.isHostScopeNode) {
      for (const [family, range] of entries(ranges)) own[family] = await this.#ownAddresses(family, range, before, node);
    }
    this.#record = this.#recordOf(ranges, own, node, host);
    const text = encodeNodeRecord(this.#record);
    if (before === undefined || encodeNodeRecord(before) !== text) writeWhole(this.#parts.files.nodeRecord, text, RECORD_MODE);
  }

  async #ownAddresses(family: Family, { cidr }: SourcedRange, before: NodeRecord | undefined, node: NodeFacts | undefined) {
    const range = hostRange(cidr);
    const last = before === undefined ? undefined : familyOf(before, family);
    const annotated = (name: string) => parseAddress(node?.annotations[name] ?? "");
    const router = await ownAddress(ROUTER, range, [last?.router, annotated(routerAnnotation(family))], this.hostScope);
    const health = await ownAddress(HEALTH, range, [last?.health, annotated(healthAnnotation(family))], this.hostScope);
    if (router === undefined) this.#sayOnce(`Unable to allocate router IP for family IPv${family}: the range is full`);
    if (health === undefined) this.#sayOnce(`no health address of IPv${family}: the range is full`);
    return { router, health };
  }

  #recordOf(
    ranges: Ranges,
    own: Readonly<Partial<Record<Family, Pick<FamilyRecord, "router" | "health">>>>,
    node: NodeFacts | undefined,
    host: HostFacts,
  ): NodeRecord {
    const { bootId, strategy, cooldownMs, options } = this.#parts;
    const ownTexts = new Set(
      Object.values(own).flatMap(({ router, health }) => [router, health].flatMap((one) => (one ? [formatAddress(one)] : []))),
    );
    const nodeAddresses = [...(node?.addresses ?? []), ...options.families.flatMap(({ nodeAddress }) => nodeAddress ?? [])];
    const { exclusions, shadowing } = exclusionsOf(
      Object.values(ranges).map(({ cidr }) => cidr),
      nodeAddresses,
      host,
      (address) => ownTexts.has(formatAddress(address)),
    );
    for (const route of shadowing) this.#sayOnce(`range-shadowed: ${route}`);
    this.#shadowing = shadowing;
    const familyRecord = (family: Family) => {
      const range = ranges[family];
      return range === undefined ? undefined : { ...range, ...own[family] };
    };
    return { node: this.#parts.node, bootId, ipv4: familyRecord(4), ipv6: familyRecord(6), exclusions, strategy, cooldownMs };
  }

  #hostAddress(family: Family, host: HostFacts): Address | undefined {
    const given = this.#parts.options.families.find((one) => one.family === family)?.nodeAddress;
    return given ?? chooseHostAddress(host.addresses, family);
  }

  /** Writes annotations that differ, by a controller that repeats a refused request: a role without the right costs a warning (A§1.7). */
  #annotate(): void {
    const { controllers, annotates, isHostScopeNode, options, clock } = this.#parts;
    const cluster = this.#cluster;
    if (cluster === undefined || !annotates || !isHostScopeNode) return;
    const enabled = options.families.map(({ family }) => family);
    const patch = () => {
      const node = cluster.own();
      return node === undefined || this.#record === undefined ? undefined : annotationPatch(node.annotations, this.#record, enabled);
    };
    if (patch() === undefined) return;
    controllers.update(ANNOTATING, {
      async run(signal) {
        const annotations = patch();
        if (annotations === undefined) return;
        await cluster.annotate(annotations);
        // Until the watch shows the write, the next run could not see it and would write again.
        for (const end = clock.now() + SHOWN_WITHIN_MS; patch() !== undefined && clock.now() < end && !signal.aborted; ) {
          await clock.sleep(LOOK_MS, signal);
        }
      },
    });
  }

  #sayOnce(message: string): void {
    if (this.#said.has(message)) return;
    this.#said.add(message);
    this.#parts.log.error(message);
  }
}

/**
 * Reads what an earlier start of this boot has found out (A§1.3). Ranges belong to the name of a node: the ones of another name are given
 * to another machine, or will be, so that plugins must not go by them either.
 * @returns `problem`: why a file that is there is not used
 */
function earlierRecord(
  { nodeRecord }: HostScopeFiles,
  node: string,
): { readonly record?: NodeRecord; readonly problem?: string; readonly isOfAnotherNode?: true } {
  try {
    const record = recordOfThisBoot(nodeRecord);
    if (record === undefined) return {};
    if (record.node === node) return { record };
    return { isOfAnotherNode: true, problem: `${nodeRecord} is of node ${record.node}, and this is node ${node}: its ranges are not used` };
  } catch (error) {
    return { problem: String(error) };
  }
}

/** Removes the file, so that neither plugins nor a next start give addresses of its ranges. */
function forgetRecord({ nodeRecord }: HostScopeFiles): void {
  rmSync(nodeRecord, { force: true });
}
