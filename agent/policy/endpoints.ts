/**
 * Tells the policy engine which endpoints this node has and which pod each of them is: those of the records, and those whose ADD is under
 * way. Labels and ports come from the copy of this node's pods. The engine does not learn of an endpoint whose pod is not known yet, so it stays closed.
 *
 * A pod lends its labels to an endpoint of its own UID alone: a StatefulSet's pod comes back under the same name.
 */
import { parseCall } from "../../handover/call-body.ts";
import type { EndpointRecord } from "../../handover/record.ts";
import { formatAddress, parseAddress } from "../../lib/addresses/address.ts";
import type { NamespacedName, Pod } from "../../lib/kubernetes/objects.ts";
import { isPodOfUid } from "../../lib/kubernetes/objects.ts";
import type { ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import { type CniArgs, parseCniArgs, podLabelsOf, withIgnoreUnknown } from "../../lib/workload/requested.ts";
import type { NewEndpoint, NewPod } from "../../main-plugin/policy.ts";
import type { Labels, LocalEndpoint, WorkloadPod } from "../../policy/model.ts";

export interface EndpointParts {
  /** Tells whoever needs it; `undefined`: the endpoint is gone, or is not to be judged yet. */
  readonly tell: (hostInterface: string, endpoint: LocalEndpoint | undefined) => void;
  /** Of this node; `undefined`: no API server knows pods. */
  readonly pods: Pick<ResourceCache<Pod>, "get" | "onChange"> | undefined;
  /** Says whether a policy may select the pod behind a host end of which nobody knows the pod, or its labels. */
  readonly mayBeSelected: (end: NewEndpoint) => boolean;
}

/** A host end without an endpoint: a plugin serves it, or nobody can say whose it is. */
export interface FoundEnd extends NewEndpoint {
  /** Nobody knows the pod, or nobody knows its labels. */
  readonly isUncertain: boolean;
}

/** One endpoint as it is wanted. */
interface Wanted extends NewEndpoint {
  /** Number of its record; `undefined` while its ADD is under way. */
  readonly id: number | undefined;
  /** The pod as it was when it was last there: it goes before its endpoint does. */
  workload: WorkloadPod | undefined;
  /** Nobody has read its pod at an ADD; absent: an ADD has. */
  readonly found?: Pick<FoundEnd, "isUncertain">;
}

interface Known {
  /** As its record says. */
  recorded?: Wanted;
  /** As an ADD says that is under way: it counts before the record, whose container may be an older one of the same pod. */
  coming?: Wanted;
  /** As the kernel has it, where no record says more. */
  found?: Wanted;
  /** What was told last, as text. */
  told?: string;
}

export class PolicyEndpoints implements Disposable {
  readonly #parts: EndpointParts;
  readonly #known = new Map<string, Known>();
  readonly #interested = new Set<() => void>();
  /** By "namespace/name"; `undefined` since an endpoint has changed. */
  #byPod: ReadonlyMap<string, NewEndpoint> | undefined;
  readonly #stop: () => void;

  constructor(parts: EndpointParts) {
    this.#parts = parts;
    this.#stop = parts.pods?.onChange(({ key }) => this.#podChanged(key)) ?? (() => undefined);
  }

  [Symbol.dispose](): void {
    this.#stop();
  }

  /** Takes an endpoint from its record, which is committed. */
  record(record: EndpointRecord): void {
    const coming = this.#known.get(record.hostInterface?.name ?? "")?.coming;
    // What the ADD has told need not be read from its record again.
    const endpoint = coming !== undefined && isOf(coming, record) ? coming : endpointOf(record);
    if (endpoint === undefined) return;
    const { hostInterface: host } = endpoint;
    const known = this.#of(host);
    const { takenOver } = record;
    const isUncertain = takenOver === "without-arguments" && endpoint.pod !== undefined && this.#parts.pods === undefined;
    const found = takenOver === undefined ? {} : { found: { isUncertain } };
    const wanted: Wanted = { ...endpoint, id: record.id, workload: undefined, ...found };
    // The ADD has read the pod, or it was known before.
    const before = [known.coming, known.recorded].find((other) => other?.workload !== undefined && isSamePod(other.pod, wanted.pod));
    wanted.workload = before?.workload;
    known.recorded = wanted;
    delete known.coming;
    this.#tell(host);
  }

  /** Forgets an endpoint that is gone; the same pod's newer one stays. */
  forget({ id, hostInterface }: Pick<EndpointRecord, "id" | "hostInterface">): void {
    const known = hostInterface && this.#known.get(hostInterface.name);
    if (known === undefined || known.recorded?.id !== id) return;
    delete known.recorded;
    this.#tell(hostInterface?.name ?? "");
  }

  /**
   * Tells of an endpoint whose ADD is under way.
   * @returns what takes it back, unless a record has come for it
   */
  admit(endpoint: NewEndpoint, workload?: WorkloadPod): () => void {
    const { hostInterface } = endpoint;
    const wanted: Wanted = { ...endpoint, id: undefined, workload };
    this.#of(hostInterface).coming = wanted;
    this.#tell(hostInterface);
    return () => {
      const known = this.#known.get(hostInterface);
      if (known?.coming !== wanted) return;
      delete known.coming;
      this.#tell(hostInterface);
    };
  }

  /** Tells of every host end that has no record. Those of the last call that are not among them are gone. */
  found(ends: readonly FoundEnd[]): void {
    const names = new Set(ends.map(({ hostInterface }) => hostInterface));
    for (const { isUncertain, ...end } of ends) {
      const known = this.#of(end.hostInterface);
      // A pod's object goes before its links do.
      const workload = isSamePod(known.found?.pod, end.pod) ? known.found?.workload : undefined;
      known.found = { ...end, id: undefined, workload, found: { isUncertain } };
      this.#tell(end.hostInterface);
    }
    for (const [name, known] of this.#known) {
      if (known.found === undefined || names.has(name)) continue;
      delete known.found;
      this.#tell(name);
    }
  }

  /** Decides once more which host ends stay open of which nobody knows the pod, or its labels. */
  judgeUncertain(): void {
    for (const [name, known] of this.#known) if (present(known)?.found?.isUncertain === true) this.#tell(name);
  }

  /** Lends an endpoint the labels of its pod where the copy of this node's pods lacks it: it is bound to another node, or the copy is late. */
  learn(hostInterface: string, found: Pod): void {
    const wanted = present(this.#known.get(hostInterface) ?? {});
    if (wanted?.pod === undefined || !isThePod(found, wanted.pod)) return;
    wanted.workload = workloadOf(found);
    this.#tell(hostInterface);
  }

  /** Says whether the pod of this endpoint is known, so that the engine knows the endpoint. */
  isKnown(hostInterface: string): boolean {
    return this.#known.get(hostInterface)?.told !== undefined;
  }

  /** Calls back each time that the engine has learnt of an endpoint. @returns what ends it */
  onTold(listener: () => void): () => void {
    this.#interested.add(listener);
    return () => this.#interested.delete(listener);
  }

  /** Gives an endpoint as it is wanted now. */
  get(hostInterface: string): NewEndpoint | undefined {
    const known = this.#known.get(hostInterface);
    return known && present(known);
  }

  /** Gives an endpoint of a pod. @param key "namespace/name" */
  ofPod(key: string): NewEndpoint | undefined {
    this.#byPod ??= new Map(this.list().flatMap((endpoint) => (endpoint.pod === undefined ? [] : [[keyOf(endpoint.pod), endpoint]])));
    return this.#byPod.get(key);
  }

  /** Lists endpoints, each as it is wanted now. */
  list(): readonly NewEndpoint[] {
    return [...this.#known.values()].flatMap((known) => present(known) ?? []);
  }

  #of(hostInterface: string): Known {
    return this.#known.getOrInsertComputed(hostInterface, () => ({}));
  }

  #podChanged(key: string): void {
    for (const [hostInterface, known] of this.#known) {
      const pod = present(known)?.pod;
      if (pod !== undefined && keyOf(pod) === key) this.#tell(hostInterface);
    }
    this.judgeUncertain();
  }

  #tell(hostInterface: string): void {
    this.#byPod = undefined;
    const known = this.#known.get(hostInterface);
    if (known === undefined) return;
    const wanted = present(known);
    const endpoint = wanted && this.#endpointOf(wanted);
    if (wanted === undefined) this.#known.delete(hostInterface);
    const text = endpoint && textOf(endpoint);
    if (text === known.told) return;
    if (text === undefined) delete known.told;
    else known.told = text;
    this.#parts.tell(hostInterface, endpoint);
    for (const listener of this.#interested) listener();
  }

  /** @returns `undefined` while its pod is not known */
  #endpointOf(wanted: Wanted): LocalEndpoint | undefined {
    const { addresses, pod } = wanted;
    const { pods, mayBeSelected } = this.#parts;
    if (wanted.found?.isUncertain === true) return mayBeSelected(wanted) ? undefined : { addresses, pod: undefined };
    if (pod === undefined) return { addresses, pod: undefined };
    const found = pods?.get(keyOf(pod));
    if (found !== undefined && isThePod(found, pod)) wanted.workload = workloadOf(found);
    const { namespace, name, uid, labels } = pod;
    // What no API server knows has the labels that its runtime gives. An ADD has asked, which nobody has done for a pod that was found.
    const unknown =
      (uid === undefined && wanted.found === undefined) || pods === undefined ? { namespace, name, labels, ports: [] } : undefined;
    const workload = wanted.workload ?? unknown;
    return workload && { addresses, pod: workload };
  }
}

/** Says whether the record is that of this ADD: no two pods of one name have an address in common. */
function isOf({ addresses, pod }: NewEndpoint, record: EndpointRecord): boolean {
  if (pod !== undefined && (record.pod !== keyOf(pod) || record.podUID !== pod.uid)) return false;
  return addresses.map(formatAddress).join() === record.addresses.map(({ address }) => address).join();
}

/** @returns `undefined` for an attachment without a link of ours */
function endpointOf({ hostInterface, addresses, pod, podUID, runtimePodUID, request }: EndpointRecord): NewEndpoint | undefined {
  if (hostInterface === undefined) return undefined;
  const args = argsOf(request?.call);
  // Plugins of earlier versions left it out of their records.
  const key = pod ?? (args === undefined || args.podName === "" ? undefined : `${args.podNamespace}/${args.podName}`);
  const [namespace = "", name = ""] = key?.split("/") ?? [];
  const labels = labelsOf(args);
  return {
    hostInterface: hostInterface.name,
    addresses: addresses.flatMap(({ address }) => parseAddress(address) ?? []),
    pod: key === undefined ? undefined : { namespace, name, uid: podUID, runtimeUid: runtimePodUID, labels },
  };
}

function present({ coming, recorded, found }: Known): Wanted | undefined {
  return coming ?? recorded ?? found;
}

/** Names a pod as the copies of pods do: "namespace/name". */
export function keyOf({ namespace, name }: NamespacedName): string {
  return `${namespace}/${name}`;
}

function isSamePod(one: NewPod | undefined, other: NewPod | undefined): boolean {
  return one !== undefined && other !== undefined && keyOf(one) === keyOf(other) && one.uid === other.uid;
}

/** A static pod's mirror may have been replaced, with another UID; the runtime's UID is still that of the pod. */
function isThePod(found: Pod, { uid, runtimeUid }: NewPod): boolean {
  if (uid === undefined) return runtimeUid === undefined || isPodOfUid(found, runtimeUid);
  return found.uid === uid || (runtimeUid !== undefined && isPodOfUid(found, runtimeUid));
}

/** Gives what policies select a pod by, and the ports that they may name. */
export function workloadOf({ namespace, name, labels, ports }: Pod): WorkloadPod {
  return {
    namespace,
    name,
    labels,
    ports: ports.flatMap((port) =>
      port.name === "" ? [] : [{ name: port.name, protocol: port.protocol || "TCP", port: port.containerPort }],
    ),
  };
}

/** @param call of the ADD, as the record keeps it (call-body.ts) @returns `undefined` for a record without one that can be read */
function argsOf(call: string | undefined): CniArgs | undefined {
  try {
    return call === undefined ? undefined : parseCniArgs(withIgnoreUnknown(parseCall(call, "ADD").env.CNI_ARGS ?? ""));
  } catch {
    // The ADD would have failed: it is a record of an older version, or of another program.
    return undefined;
  }
}

function labelsOf(args: CniArgs | undefined): Labels {
  try {
    return args === undefined ? {} : podLabelsOf(args);
  } catch {
    return {};
  }
}

function textOf({ addresses, pod }: LocalEndpoint): string {
  return JSON.stringify([addresses.map(formatAddress), pod && [pod.namespace, pod.name, Object.entries(pod.labels).sort(), pod.ports]]);
}
