/**
 * Removes what was left behind: endpoints whose link or pod is gone, and links without an endpoint (A§8.1). Sees each twice, at least a
 * minute apart, before anything is done, and takes whatever cannot be found out for alive.
 */

import type { AttachedLink, Dataplane } from "../../dataplane/dataplane.ts";
import type { HostLink } from "../../dataplane/linux/host-facts.ts";
import { type EndpointRecord, isCommitted, isOfStaticPod } from "../../handover/record.ts";
import { type AttachmentId, isSameAttachment } from "../../lib/cni/attachment-id.ts";
import { Observations } from "../../lib/resident/observations.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import { isSandboxGone } from "../endpoints/sandbox.ts";

/** Between the first look and the one that counts (A§8.1). */
export const LEAST_BETWEEN_MS = 60_000;
/** For so long a runtime may take to send the DEL of a pod that is gone. */
const RUNTIME_MS = 600_000;

type FindingKind = "endpoint-without-link" | "endpoint-without-pod" | "link-without-endpoint" | "unfinished-link";

/** The pods of this node, where there is a cluster. */
export interface SweptPods {
  /** The list is complete, and changes are being heard of. */
  readonly isComplete: boolean;
  /** Lists every UID that stands for the pod of this name; empty when the watch shows no such pod. */
  uidsOf(pod: string): readonly string[];
  /** Asks the server for the same. @throws Error when it cannot be found out */
  ask(pod: string): Promise<readonly string[]>;
}

export interface SweepOptions {
  readonly clock: Clock;
  /** The restore has ended: every endpoint that there is, is known. */
  readonly isRestored: () => boolean;
  /** Name of this node. */
  readonly node: string;
  readonly records: () => readonly EndpointRecord[];
  /** One dump of the host's links. @throws Error */
  readonly links: () => readonly HostLink[];
  readonly dataplane: Pick<Dataplane, "list" | "remove">;
  /** Whether the plugins serve the network themselves: its links are theirs. */
  readonly isLeftToPlugins: (network: string) => boolean;
  readonly pods: SweptPods | undefined;
  /** A link with the endpoint's alias has another index than the record says. */
  readonly takeOver: (record: EndpointRecord, link: HostLink) => Promise<void>;
  /** Removes an endpoint as its DEL would. @throws Error: it is tried again at the next sweep */
  readonly remove: (record: EndpointRecord) => Promise<void>;
  /**
   * Called for what is removed, and for what is only reported.
   * @param isNew the last whole look did not find it
   */
  readonly onFound: (kind: FindingKind, what: string, isNew: boolean) => void;
}

export class Sweep {
  readonly #options: SweepOptions;
  readonly #seen: Observations;
  /** What the last whole look has found, and what the present one has. */
  #lastFound: ReadonlySet<string> = new Set();
  #found = new Set<string>();
  /** Removals of the present look that failed. */
  #failures: unknown[] = [];

  constructor(options: SweepOptions) {
    this.#options = options;
    this.#seen = new Observations(options.clock);
  }

  /**
   * Looks at everything once.
   * @throws Error when the look failed, from which nothing is taken then, or, at its end, the first removal that did
   */
  async run(signal: AbortSignal): Promise<void> {
    if (!this.#options.isRestored()) return this.#seen.forget();
    this.#failures = [];
    this.#found = new Set();
    try {
      const attached = await this.#options.dataplane.list();
      const links = this.#options.links();
      for (const record of this.#options.records()) {
        if (signal.aborted) return this.#seen.forget();
        if (isCommitted(record)) await this.#lookAtEndpoint(record, links);
      }
      for (const link of attached) {
        if (signal.aborted) return this.#seen.forget();
        await this.#lookAtLink(link);
      }
      this.#seen.endLook();
      this.#lastFound = this.#found;
    } catch (error) {
      this.#seen.forget();
      throw error;
    }
    // The look was whole all the same: what could not be removed is found again at the next one, and the others are not held up.
    if (this.#failures.length > 0) throw this.#failures[0];
  }

  async #lookAtEndpoint(record: EndpointRecord, links: readonly HostLink[]): Promise<void> {
    const link = hasLinkOfOwn(record) ? linkOf(record, links) : undefined;
    // A link that was made again has another index.
    if (link !== undefined && link.index !== record.hostInterface?.index) await this.#options.takeOver(record, link);
    const lacksLink = hasLinkOfOwn(record) && link === undefined && this.#seen.see(`link ${record.id}`, LEAST_BETWEEN_MS);
    if (lacksLink && (isSandboxGone(record) || (await this.#isPodGone(record)))) {
      return this.#remove("endpoint-without-link", record);
    }
    if (this.#lacksPod(record) && this.#seen.see(`pod ${record.id}`, RUNTIME_MS) && (await this.#isPodGone(record))) {
      await this.#remove("endpoint-without-pod", record);
    }
  }

  #lacksPod(record: EndpointRecord): boolean {
    const { pods } = this.#options;
    if (pods === undefined || record.pod === undefined || !this.#isJudgedByPod(record)) return false;
    return pods.isComplete && !isAmong(pods.uidsOf(record.pod), record);
  }

  /**
   * Asks the server, whatever the watch shows. The server says nothing about a static pod, which the kubelet runs with or without a
   * mirror: it lives as long as its sandbox.
   * @throws Error
   */
  async #isPodGone(record: EndpointRecord): Promise<boolean> {
    const { pods } = this.#options;
    if (pods === undefined || record.pod === undefined || !this.#isJudgedByPod(record)) return false;
    if (isOfStaticPod(record) && !isSandboxGone(record)) return false;
    return !isAmong(await pods.ask(record.pod), record);
  }

  /** A record that was taken over may lack the UID: any pod of its name keeps it then, and so does a name that static pods have. */
  #isJudgedByPod({ pod, podUID, takenOver }: EndpointRecord): boolean {
    return podUID !== undefined || (takenOver !== undefined && pod !== undefined && !isNamedAsStatic(pod, this.#options.node));
  }

  async #remove(kind: FindingKind, record: EndpointRecord): Promise<void> {
    // It may have been removed, or have changed, while the server was asked.
    const isSame = this.#options.records().some(({ id, updatedAt }) => id === record.id && updatedAt === record.updatedAt);
    if (!isSame) return;
    this.#tell(kind, `endpoint ${record.id}, container ${record.attachment.containerId}`);
    await this.#attempt(() => this.#options.remove(record));
  }

  #tell(kind: FindingKind, what: string): void {
    const finding = `${kind} ${what}`;
    this.#found.add(finding);
    this.#options.onFound(kind, what, !this.#lastFound.has(finding));
  }

  async #attempt(removal: () => Promise<unknown>): Promise<void> {
    try {
      await removal();
    } catch (error) {
      this.#failures.push(error);
    }
  }

  async #lookAtLink(link: AttachedLink): Promise<void> {
    const { dataplane } = this.#options;
    const what = `${link.hostInterface}, index ${link.index}`;
    if (link.owner === undefined) {
      if (!this.#seen.see(`unfinished ${link.index}`, LEAST_BETWEEN_MS)) return;
      this.#tell("unfinished-link", what);
      await this.#attempt(() => dataplane.remove(link));
      return;
    }
    const { network, containerId, ifname, workload } = link.owner;
    if (this.#isKnown({ network, containerId, ifname }) || !this.#seen.see(`owned ${link.index}`, LEAST_BETWEEN_MS)) return;
    this.#tell("link-without-endpoint", `${what}, container ${containerId}`);
    // A plugin that worked before there was an agent has not recorded its pod: only the server can say that the pod is gone.
    const { pods, node } = this.#options;
    if (workload === undefined || pods === undefined || isNamedAsStatic(workload, node) || (await pods.ask(workload)).length > 0) return;
    if (!this.#isKnown({ network, containerId, ifname })) await this.#attempt(() => dataplane.remove(link));
  }

  #isKnown(attachment: AttachmentId): boolean {
    const { records, isLeftToPlugins } = this.#options;
    return isLeftToPlugins(attachment.network) || records().some((record) => isSameAttachment(record.attachment, attachment));
  }
}

function isAmong(uids: readonly string[], { podUID, runtimePodUID }: EndpointRecord): boolean {
  if (podUID === undefined && runtimePodUID === undefined) return uids.length > 0;
  return uids.some((uid) => uid === podUID || uid === runtimePodUID);
}

/**
 * Says whether a pod may be a static one of this node: the kubelet ends their names with the node's (pkg/kubelet/config/common.go,
 * generatePodName). The server says nothing about them, and no record has a UID of such a link. The kernel removes it with its sandbox.
 */
function isNamedAsStatic(workload: string, node: string): boolean {
  return workload.endsWith(`-${node.toLowerCase()}`);
}

/** Finds the link that says that it is the endpoint's. An endpoint without a link of its own cannot lack one. */
function linkOf({ hostInterface }: EndpointRecord, links: readonly HostLink[]): HostLink | undefined {
  const own = links.filter(({ alias }) => alias === hostInterface?.alias);
  return own.find(({ index }) => index === hostInterface?.index) ?? own[0];
}

function hasLinkOfOwn({ linkForm, hostInterface }: EndpointRecord): boolean {
  return linkForm !== "attached" && hostInterface !== undefined;
}
