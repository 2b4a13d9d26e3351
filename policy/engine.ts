/**
 * Computes what the packet filter of this node must hold from policies, namespaces, pods and the node's own endpoints. Pure: no I/O, no clock;
 * the same input, in whatever order it came, gives the same result. An event costs what it concerns: endpoints that its policy selects, addresses
 * whose predicates change, classes that come or go.
 */
import type { ClassName, EndpointPolicy, PacketPolicy, Permissions } from "../dataplane/packet-policy.ts";
import { type Address, formatAddress } from "../lib/addresses/address.ts";
import { Active } from "./active.ts";
import { Addresses } from "./addresses.ts";
import { ClassTable, classOf } from "./classes.ts";
import { addTo, Groups, removeFrom } from "./groups.ts";
import { judge } from "./judge.ts";
import type { Enforcement, EngineChange, Flow, Judgement, Labels, LocalEndpoint, PeerPod, PolicyObject, PolicyStatus } from "./model.ts";
import { translateNetworkPolicy } from "./network-policy.ts";
import { type OwnerPod, Owners } from "./owners.ts";
import { permissionKey } from "./permissions.ts";
import { Profiles, type SharedProfile } from "./profiles.ts";
import { compareText, type Policy, rulesOf } from "./rules.ts";
import { Subjects } from "./subjects.ts";

/** An endpoint and the rules that it falls under. */
interface Attached {
  readonly selectedBy: readonly string[];
  readonly ingress: SharedProfile | undefined;
  readonly egress: SharedProfile | undefined;
}

const UNSELECTED: Attached = { selectedBy: [], ingress: undefined, egress: undefined };

export class PolicyEngine {
  readonly #enforcement: Enforcement;
  readonly #namespaces = new Map<string, Labels>();
  readonly #endpoints = new Map<string, LocalEndpoint>();
  readonly #byNamespace = new Map<string, Set<string>>();
  readonly #subjects = new Subjects();
  readonly #owners = new Owners();
  readonly #active = new Active();
  readonly #table = new ClassTable();
  readonly #profiles: Profiles;
  readonly #addresses: Addresses;
  readonly #groups: Groups;
  readonly #attached = new Map<string, Attached>();
  /** Endpoints by the policy that selects them. */
  readonly #selected = new Map<string, Set<string>>();
  /** The policies that select a pod, for judging many flows; until a policy or a namespace changes. */
  #selections = new WeakMap<OwnerPod, readonly Policy[]>();
  readonly #touchedEndpoints = new Set<string>();
  /** Endpoints whose rules were found again since the last `take()`. */
  readonly #concerned = new Set<string>();
  readonly #touchedNamespaces = new Set<string>();
  readonly #current = new Map<string, EndpointPolicy>();
  #snapshot: PacketPolicy | undefined;

  constructor(options: { readonly enforcement: Enforcement }) {
    this.#enforcement = options.enforcement;
    this.#groups = new Groups((namespace) => this.labelsOf(namespace));
    this.#addresses = new Addresses(this.#owners, this.#groups, this.#table);
    this.#profiles = new Profiles(this.#active, this.#table, options.enforcement);
    // Addresses that nobody mentions are always there.
    this.#table.use(classOf([]));
  }

  /** @param labels `undefined`: the namespace is gone or not known */
  setNamespace(name: string, labels: Labels | undefined): void {
    if (labels === undefined) this.#namespaces.delete(name);
    else this.#namespaces.set(name, labels);
    this.#touchedNamespaces.add(name);
    this.#selections = new WeakMap();
  }

  /** @returns the labels as they were set; `undefined` where they are not known */
  labelsOf(namespace: string): Labels | undefined {
    return this.#namespaces.get(namespace);
  }

  /** @param key "namespace/name" @param policy `undefined`: it is gone */
  setPolicy(key: string, policy: PolicyObject | undefined): void {
    this.setRules(key, policy && translateNetworkPolicy(policy));
  }

  /** Sets a policy of any kind that is translated already. @param key "namespace/name" @param policy `undefined`: it is gone */
  setRules(key: string, policy: Policy | undefined): void {
    this.#touch(this.#selected.get(key));
    this.#selections = new WeakMap();
    this.#subjects.set(key, policy);
    if (policy === undefined) return;
    const { namespaces } = policy.subject;
    this.#touch(typeof namespaces === "string" ? this.#byNamespace.get(namespaces) : this.#endpoints.keys());
  }

  /** @param key "namespace/name" @param pod `undefined`: it is gone */
  setPeer(key: string, pod: PeerPod | undefined): void {
    this.#addresses.touch(this.#owners.setPeer(key, pod));
  }

  /** @param endpoint `undefined`: it is gone */
  setEndpoint(hostInterface: string, endpoint: LocalEndpoint | undefined): void {
    const before = this.#endpoints.get(hostInterface)?.pod;
    if (before !== undefined) removeFrom(this.#byNamespace, before.namespace, hostInterface);
    if (endpoint === undefined) this.#endpoints.delete(hostInterface);
    else this.#endpoints.set(hostInterface, endpoint);
    if (endpoint?.pod !== undefined) addTo(this.#byNamespace, endpoint.pod.namespace, hostInterface);
    this.#touchedEndpoints.add(hostInterface);
    this.#addresses.touch(this.#owners.setEndpoint(hostInterface, endpoint));
  }

  /**
   * Does a part of what the next `take()` has to do, so that whoever has many events can let others run in between. A last part is left to
   * `take()`: what is half done must not show, and the copy that hides it costs as much as the cluster has addresses.
   * @param most addresses that are looked at
   * @returns whether more than `take()` should look at may be left
   */
  prepare(most: number): boolean {
    this.#refresh();
    if (this.#addresses.waiting <= most) return false;
    this.#snapshot ??= this.#makeSnapshot();
    this.#addresses.update(most);
    return true;
  }

  /** Computes what the events since the last call change; empty maps when that is nothing. */
  take(): EngineChange {
    this.#refresh();
    this.#addresses.update(Number.POSITIVE_INFINITY);
    const { addresses, moved } = this.#addresses.takeChanged();
    const blocks = this.#addresses.takeIntervals();
    const endpoints = this.#updateEndpoints(this.#profiles.update(this.#table.takeChanged()));
    if (endpoints.size + addresses.size > 0 || blocks !== undefined) this.#snapshot = undefined;
    return { endpoints, addresses, blocks, moved };
  }

  /** What the packet filter must hold after the last `take()`. Nothing changes it afterwards. */
  get state(): PacketPolicy {
    this.#snapshot ??= this.#makeSnapshot();
    return this.#snapshot;
  }

  /** Judges a packet that begins a connection by the policies as they were set. Classes are those that were computed last. */
  judge(flow: Flow): Judgement {
    const known = {
      enforcement: this.#enforcement,
      labelsOf: (namespace: string) => this.labelsOf(namespace),
      policiesOf: (pod: OwnerPod) => this.#selecting(pod),
      workloadAt: (address: string) => this.#owners.workloadAt(address),
      podAt: (address: string) => this.#owners.podAt(address),
      classAt: (address: Address): ClassName => this.#addresses.classAt(formatAddress(address), address),
    };
    return judge(known, flow);
  }

  /** Tells whether any policy selects a pod with these labels. */
  selects(pod: Pick<PeerPod, "namespace" | "labels">): boolean {
    return this.#subjects.selecting(pod, this.#namespaces.get(pod.namespace)).length > 0;
  }

  /** Lists all policies, sorted by key; whom they select is as of the last `take()`. */
  policies(): readonly PolicyStatus[] {
    return [...this.#subjects.all()].map((policy) => this.#statusOf(policy)).sort((one, other) => compareText(one.key, other.key));
  }

  /** Tells whether a policy in force names a port in egress, as of the last `take()`. */
  get needsPortsOfPeers(): boolean {
    return this.#active.ports.size > 0;
  }

  #selecting(pod: OwnerPod): readonly Policy[] {
    return this.#selections.getOrInsertComputed(pod, () => this.#subjects.selecting(pod, this.#namespaces.get(pod.namespace)));
  }

  #touch(hostInterfaces: Iterable<string> | undefined): void {
    for (const name of hostInterfaces ?? []) this.#touchedEndpoints.add(name);
  }

  #makeSnapshot(): PacketPolicy {
    return { endpoints: sorted(this.#current), addresses: sorted(this.#addresses.classes), blocks: this.#addresses.takenIntervals };
  }

  /** Finds the rules in force, and the addresses that they concern. */
  #refresh(): void {
    this.#refreshNamespaces();
    for (const name of this.#touchedEndpoints) {
      this.#attach(name);
      this.#concerned.add(name);
    }
    this.#touchedEndpoints.clear();
    this.#addresses.changePeers(this.#active.peers.take());
    this.#addresses.changePorts(this.#active.ports.take());
  }

  #refreshNamespaces(): void {
    for (const namespace of this.#touchedNamespaces) {
      this.#addresses.touchGroups(this.#groups.refreshNamespace(namespace));
      if (this.#subjects.needsNamespaces) this.#touch(this.#byNamespace.get(namespace));
    }
    this.#touchedNamespaces.clear();
  }

  /** Finds the rules of one endpoint. */
  #attach(name: string): void {
    const before = this.#attached.get(name) ?? UNSELECTED;
    const endpoint = this.#endpoints.get(name);
    const after = endpoint === undefined ? UNSELECTED : this.#rulesFor(endpoint);
    for (const key of before.selectedBy) removeFrom(this.#selected, key, name);
    for (const key of after.selectedBy) addTo(this.#selected, key, name);
    // The new ones are held already, so that rules in both never count as gone.
    this.#profiles.release(before.ingress);
    this.#profiles.release(before.egress);
    if (endpoint === undefined) this.#attached.delete(name);
    else this.#attached.set(name, after);
  }

  #rulesFor({ pod }: LocalEndpoint): Attached {
    const policies = pod === undefined ? [] : this.#subjects.selecting(pod, this.#namespaces.get(pod.namespace));
    const acquire = (direction: "ingress" | "egress") =>
      this.#profiles.acquire(
        policies.filter((policy) => rulesOf(policy, direction) !== undefined),
        direction,
        pod?.ports ?? [],
      );
    return { selectedBy: policies.map(({ key }) => key), ingress: acquire("ingress"), egress: acquire("egress") };
  }

  #updateEndpoints(different: ReadonlySet<SharedProfile>): ReadonlyMap<string, EndpointPolicy | undefined> {
    if (different.size > 0) {
      for (const [name, { ingress, egress }] of this.#attached) {
        if ((ingress !== undefined && different.has(ingress)) || (egress !== undefined && different.has(egress))) this.#concerned.add(name);
      }
    }
    const changed = new Map<string, EndpointPolicy | undefined>();
    for (const name of [...this.#concerned].sort()) {
      const before = this.#current.get(name);
      const after = this.#policyOf(name, before);
      if (after === before) continue;
      changed.set(name, after);
      if (after === undefined) this.#current.delete(name);
      else this.#current.set(name, after);
    }
    this.#concerned.clear();
    return changed;
  }

  /** @returns `before` itself where nothing changed */
  #policyOf(name: string, before: EndpointPolicy | undefined): EndpointPolicy | undefined {
    const endpoint = this.#endpoints.get(name);
    const attached = this.#attached.get(name);
    if (endpoint === undefined || attached === undefined) return undefined;
    const addresses = sameAddresses(before?.addresses, endpoint.addresses);
    const ingress = samePermissions(before?.ingress, attached.ingress?.permissions);
    const egress = samePermissions(before?.egress, attached.egress?.permissions);
    const isSame = before !== undefined && before.addresses === addresses && before.ingress === ingress && before.egress === egress;
    return isSame ? before : { addresses, ingress, egress };
  }

  #statusOf(policy: Policy): PolicyStatus {
    return {
      key: policy.key,
      uid: policy.uid,
      resourceVersion: policy.resourceVersion,
      directions: (["ingress", "egress"] as const).filter((direction) => rulesOf(policy, direction) !== undefined),
      endpoints: [...(this.#selected.get(policy.key) ?? [])].sort(),
      problem: policy.problem,
    };
  }
}

function sameAddresses(before: readonly Address[] | undefined, after: readonly Address[]): readonly Address[] {
  const text = (addresses: readonly Address[]) => addresses.map(formatAddress).join();
  return before !== undefined && text(before) === text(after) ? before : after;
}

/** @returns `before` where both allow the same */
function samePermissions(before: Permissions | undefined, after: Permissions | undefined): Permissions | undefined {
  if (before === undefined || after === undefined || before.size !== after.size) return after;
  for (const [name, permission] of after) {
    const other = before.get(name);
    if (other !== permission && (other === undefined || permissionKey(other) !== permissionKey(permission))) return after;
  }
  return before;
}

function sorted<V>(map: ReadonlyMap<string, V>): ReadonlyMap<string, V> {
  return new Map([...map].sort(([one], [other]) => compareText(one, other)));
}
