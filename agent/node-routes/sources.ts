/** Where the view of the cluster comes from: the port between the routes and the store that they are decided by. */
import type { ClusterClaims } from "./model.ts";

export interface RouteSources {
  /** Begins to follow; resolves when it has begun. @throws Error when the store cannot be asked; it may be called again */
  start(): Promise<void>;
  /** Why the claims must not be used: a list is incomplete, or changes are not being heard of. `undefined`: it may (design, invariant 14). */
  readonly gap: string | undefined;
  readonly claims: ClusterClaims;
  /** Told of changes that can make a difference to routes. */
  onChange(listener: () => void): void;
  /** Merges annotations into this node's object; `null` removes one. @throws Error */
  annotate(annotations: Readonly<Record<string, string | null>>): Promise<void>;
}
