/** The port between the replayer and a store: local now, Kubernetes and etcd later. */
import type { JsonRecord } from "./json.ts";
import type { Stage } from "./stage.ts";
import type { StoredObject } from "./stored-object.ts";
import type { StoredState } from "./stored-state.ts";

export interface ReplayStore extends AsyncDisposable {
  /** Standard input of a call, so that the plugin uses this store. An exact text is changed in place, so that its oddities stay. */
  rewriteNetconf(stdin: JsonRecord | string): string;
  /** Puts the objects of `before`; tokens were replaced already. */
  seed(objects: readonly StoredObject[]): Promise<void>;
  /** Puts and removes what a scenario changes between two calls. */
  applyChange(put: readonly StoredObject[], remove: readonly { readonly kind: string; readonly name: string }[]): Promise<void>;
  /** What is stored now, in the recordings' terms. */
  readObjects(): Promise<StoredState>;
}

export interface StoreKind {
  /** The store of one stage. */
  open(stage: Stage): ReplayStore;
  /** The part of a recorded state that a store of this kind can hold at all. */
  comparable(recorded: StoredState): StoredState;
}
