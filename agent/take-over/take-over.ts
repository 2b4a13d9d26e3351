/**
 * Makes endpoints of the attachments that are on this node and have no record: those of a boot before the agent began, of a time without
 * an agent, of Calico's plugins. What a list leaves to the plugins, and what cannot be identified, is told to policy and reported, and
 * nothing else is done with it.
 */
import { namesAttachment } from "../../dataplane/alias.ts";
import type { HostEndLink } from "../../dataplane/linux/host-ends.ts";
import type { EndpointRecord } from "../../handover/record.ts";
import { formatAddress } from "../../lib/addresses/address.ts";
import type { AttachmentId } from "../../lib/cni/attachment-id.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import type { Pod } from "../../lib/kubernetes/objects.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import type { SeenSandbox } from "../../lib/system/sandbox.ts";
import type { NewPod } from "../../main-plugin/policy.ts";
import type { EndpointManager } from "../endpoints/manager.ts";
import type { FoundEnd } from "../policy/endpoints.ts";
import type { NodeList } from "../start/node-lists.ts";
import { type Evidence, type Identified, identify } from "./identify.ts";
import { aliasOf, type Proven, type recordOf } from "./record.ts";

export interface TakeOverParts {
  /** @throws Error */
  readonly hostEnds: () => readonly HostEndLink[];
  readonly lists: () => readonly NodeList[];
  /** Pods of this node; absent without an API server. */
  readonly pods: { list(): readonly Pod[]; get(key: string): Pod | undefined } | undefined;
  /** Named sandboxes by the number that the host has for each. */
  readonly sandboxes: () => ReadonlyMap<number, SeenSandbox>;
  readonly endpoints: Pick<EndpointManager, "list" | "takeOver" | "write" | "find">;
  /** Keeps calls away from the attachment. @returns `undefined` while one is under way, or a queued DEL waits */
  readonly tryHold: (attachment: AttachmentId) => Disposable | undefined;
  /** Writes an alias. @throws NetlinkError */
  readonly label: (end: HostEndLink, alias: string) => void;
  readonly makeRecord: (proven: Proven) => ReturnType<typeof recordOf>;
  /** Told of all host ends that have no record. */
  readonly onFound: (ends: readonly FoundEnd[]) => void;
  readonly log: Pick<AgentLog, "info" | "error">;
}

/** What a look left as it was. */
export interface LeftAsIs {
  /** Host ends of networks that their lists leave to the plugins, or that have no list here. */
  readonly toPlugins: readonly { readonly network: string; readonly list: NodeList | undefined; readonly end: HostEndLink }[];
  readonly unidentified: readonly { readonly end: HostEndLink; readonly problem: string }[];
}

export class TakeOver {
  readonly #parts: TakeOverParts;
  #left: LeftAsIs = { toPlugins: [], unidentified: [] };

  constructor(parts: TakeOverParts) {
    this.#parts = parts;
  }

  get left(): LeftAsIs {
    return this.#left;
  }

  /** Looks at every host end once, after any look before it. @returns whether a store could prove more @throws Error */
  async look(grantOf: Evidence["grantOf"]): Promise<boolean> {
    const { hostEnds, lists, pods, onFound, endpoints } = this.#parts;
    const records = endpoints.list();
    const unowned = hostEnds().filter((end) => !records.some((record) => isOf(end, record)));
    const networks = new Map(unowned.length === 0 ? [] : lists().map((list) => [list.config.name, list]));
    const evidence: Evidence = { grantOf, pods: pods?.list() ?? [] };
    const left = { toPlugins: [] as LeftAsIs["toPlugins"][number][], unidentified: [] as LeftAsIs["unidentified"][number][] };
    const found: FoundEnd[] = [];
    const sandboxes = unowned.length === 0 ? undefined : this.#parts.sandboxes();
    for (const end of unowned) {
      const identified = identify(end, evidence);
      if ("problem" in identified) left.unidentified.push({ end, problem: identified.problem });
      else {
        const { attachment } = identified;
        const list = attachment && networks.get(attachment.network);
        if (attachment !== undefined && list?.isOfAgent === true && identified.isCertain) {
          if (await this.#take(end, { ...identified, attachment }, list, sandboxes)) continue;
        } else left.toPlugins.push({ network: attachment?.network ?? "", list, end });
      }
      found.push(this.#foundEnd(end, identified));
    }
    this.#left = left;
    onFound(found);
    this.#learnUids();
    return left.unidentified.some(({ end }) => end.addresses.length > 0);
  }

  /** @returns whether it is an endpoint now */
  async #take(
    end: HostEndLink,
    { attachment, pod }: Identified & { readonly attachment: AttachmentId },
    list: NodeList,
    sandboxes: ReadonlyMap<number, SeenSandbox> | undefined,
  ): Promise<boolean> {
    const { endpoints, tryHold, label, makeRecord, log } = this.#parts;
    using held = tryHold(attachment);
    if (held === undefined || endpoints.find(attachment) !== undefined) return false;
    const sandbox = end.peer && sandboxes?.get(end.peer.namespaceId);
    const proven: Proven = { end, attachment, pod, podUID: this.#uidOf(pod, end), list, sandbox };
    const whose = `${pod === undefined ? "" : `pod ${pod}, `}container ${attachment.containerId}`;
    try {
      const { record, problem } = await makeRecord(proven);
      if (end.alias === "") label(end, aliasOf(proven));
      const endpoint = endpoints.takeOver(record);
      const unrepaired = problem === undefined ? "" : `; its link is not repaired: ${problem}`;
      if (problem !== undefined) endpoint.note("Warning", "Other", `Its link is not repaired: ${problem}`);
      log.info(`${whose} was attached before the agent began and is endpoint ${endpoint.id} now${unrepaired}`);
      return true;
    } catch (error) {
      log.error(`${whose} was attached before the agent began and cannot be taken over: ${messageOf(error)}`);
      return false;
    }
  }

  #foundEnd(end: HostEndLink, identified: ReturnType<typeof identify>): FoundEnd {
    const { pods } = this.#parts;
    const pod = "problem" in identified ? undefined : identified.pod;
    const isProven = !("problem" in identified) && identified.isCertain;
    return {
      hostInterface: end.name,
      addresses: end.addresses,
      pod: pod === undefined ? undefined : this.#podOf(pod, end),
      // Without an API server the labels of a pod are the runtime's secret.
      isUncertain: !isProven || (pod !== undefined && pods === undefined),
    };
  }

  #podOf(key: string, end: HostEndLink): NewPod {
    const [namespace = "", name = ""] = key.split("/");
    return { namespace, name, uid: this.#uidOf(key, end), runtimeUid: undefined, labels: {} };
  }

  /** The UID of the pod that the kubelet says has one of the addresses: a namesake that came later has others. */
  #uidOf(key: string | undefined, { addresses }: Pick<HostEndLink, "addresses">): string | undefined {
    const pod = key === undefined ? undefined : this.#parts.pods?.get(key);
    return pod !== undefined && hasOneOf(pod, addresses.map(formatAddress)) ? pod.uid : undefined;
  }

  /** Adds UIDs that were not known when the endpoints were taken over. */
  #learnUids(): void {
    const { endpoints, pods } = this.#parts;
    for (const record of endpoints.list()) {
      if (record.takenOver === undefined || record.podUID !== undefined || record.pod === undefined || record.phase !== "ready") continue;
      const pod = pods?.get(record.pod);
      const isProven =
        pod !== undefined &&
        hasOneOf(
          pod,
          record.addresses.map(({ address }) => address),
        );
      if (isProven) void endpoints.write({ ...record, podUID: pod.uid });
    }
  }
}

function hasOneOf({ podIP, podIPs }: Pick<Pod, "podIP" | "podIPs">, addresses: readonly string[]): boolean {
  return addresses.some((address) => address === podIP || podIPs.includes(address));
}

/** Says whether the host end is the endpoint's: an ADD under way has said its name before the link is there. */
function isOf({ name, alias }: HostEndLink, { attachment, hostInterface }: EndpointRecord): boolean {
  return alias === "" ? hostInterface?.name === name : namesAttachment(alias, attachment);
}
