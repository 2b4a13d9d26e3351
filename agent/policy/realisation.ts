/**
 * Remembers which version of each policy, and which endpoints, the kernel holds: `policy wait` and the view ask. What was told since the
 * last pass is not in the kernel yet.
 */
import type { PolicySink } from "./sources/model.ts";

interface Told {
  /** By "namespace/name", the version that the engine has heard; `undefined`: the policy is gone. */
  readonly policies: Map<string, string | undefined>;
  /** Host ends. */
  readonly endpoints: Set<string>;
}

export class Realisations {
  readonly #held = new Map<string, string>();
  #told: Told = nothing();
  /** Taken by passes that failed, or that are under way. */
  #taken: Told = nothing();

  /** Notes the policies that the sink hears. */
  noting(sink: PolicySink): PolicySink {
    return {
      setNamespace: (name, labels) => sink.setNamespace(name, labels),
      setPolicy: (key, policy) => {
        this.#told.policies.set(key, policy?.resourceVersion);
        sink.setPolicy(key, policy);
      },
      setPeer: (key, pod) => sink.setPeer(key, pod),
      get needsPortsOfPeers() {
        return sink.needsPortsOfPeers;
      },
    };
  }

  noteEndpoint(hostInterface: string): void {
    this.#told.endpoints.add(hostInterface);
  }

  /** The engine's changes are taken: a pass begins. */
  taken(): void {
    for (const [key, version] of this.#told.policies) this.#taken.policies.set(key, version);
    for (const name of this.#told.endpoints) this.#taken.endpoints.add(name);
    this.#told = nothing();
  }

  /** The kernel holds what was taken. */
  realised(): void {
    for (const [key, version] of this.#taken.policies) {
      if (version === undefined) this.#held.delete(key);
      else this.#held.set(key, version);
    }
    this.#taken = nothing();
  }

  /** @returns the version that the kernel holds */
  versionOf(policy: string): string | undefined {
    return this.#held.get(policy);
  }

  /** Says whether the kernel lacks something of what the engine has heard about the policy. */
  isAwaited(policy: string): boolean {
    return this.#told.policies.has(policy) || this.#taken.policies.has(policy);
  }

  /** Lists host ends that the kernel does not hold as they were told last. */
  get awaitedEndpoints(): ReadonlySet<string> {
    return new Set([...this.#told.endpoints, ...this.#taken.endpoints]);
  }
}

function nothing(): Told {
  return { policies: new Map(), endpoints: new Set() };
}
