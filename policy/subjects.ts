/** Knows the policies, and which of them select a pod. */
import type { Labels } from "./model.ts";
import type { OwnerPod } from "./owners.ts";
import { byOrder, isInNamespace, type Policy } from "./rules.ts";
import { selects } from "./selector.ts";

export class Subjects {
  readonly #all = new Map<string, Policy>();
  readonly #byNamespace = new Map<string, Map<string, Policy>>();
  /** Policies for pods of namespaces that a selector names. */
  readonly #wide = new Map<string, Policy>();

  set(key: string, policy: Policy | undefined): void {
    const before = this.#all.get(key);
    if (before !== undefined) this.#shelf(before).delete(key);
    if (policy === undefined) {
      this.#all.delete(key);
      return;
    }
    this.#all.set(key, policy);
    this.#shelf(policy).set(key, policy);
  }

  get(key: string): Policy | undefined {
    return this.#all.get(key);
  }

  all(): Iterable<Policy> {
    return this.#all.values();
  }

  /** Tells whether labels of namespaces decide whom a policy selects. */
  get needsNamespaces(): boolean {
    return this.#wide.size > 0;
  }

  /** The policies that select a pod, in the order in which they are asked. @param labels of the namespace, where they are known */
  selecting(pod: Pick<OwnerPod, "namespace" | "labels">, labels: Labels | undefined): readonly Policy[] {
    const found: Policy[] = [];
    for (const shelf of [this.#byNamespace.get(pod.namespace), this.#wide]) {
      for (const policy of shelf?.values() ?? []) {
        if (isInNamespace(policy.subject, pod.namespace, labels) && selects(policy.subject.pods, pod.labels)) found.push(policy);
      }
    }
    return found.sort(byOrder);
  }

  #shelf({ subject }: Policy): Map<string, Policy> {
    if (typeof subject.namespaces !== "string") return this.#wide;
    return this.#byNamespace.getOrInsertComputed(subject.namespaces, () => new Map());
  }
}
