/** The port between the replayer and a store: the embedded one (local-store.ts) and the API server (kubernetes-store.ts). */
import type { JsonRecord } from "../compare/json.ts";
import type { Recording } from "../recording/recording.ts";
import type { StoredObject } from "../recording/stored-object.ts";
import type { StoredState } from "../recording/stored-state.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";

export interface ReplayStore extends AsyncDisposable {
  /** What stands for the recordings' tokens that belong to a store: `{{apiserver}}` → "127.0.0.1:6443". */
  readonly places: ReadonlyMap<string, string>;
  /** Texts that the store chose, and that differ from play to play → what recordings have there. Complete after the last call. */
  readonly volatile: ReadonlyMap<string, string>;
  /** Standard input of a call, so that the plugin uses this store. An exact text is changed in place, so that its oddities stay. */
  rewriteNetconf(stdin: JsonRecord | string): string;
  /** Puts the objects of `before`; tokens were replaced already. */
  seed(objects: readonly StoredObject[]): Promise<void>;
  /** Puts and removes what a scenario changes between two calls. */
  applyChange(put: readonly StoredObject[], remove: readonly { readonly kind: string; readonly name: string }[]): Promise<void>;
  /** What is stored now, in the recordings' terms. */
  readObjects(): Promise<StoredState>;
  /** Flags that lead an agent to this store. */
  readonly agentFlags: readonly string[];
  /** What the plugin asked of the store's server since the last look; `undefined` where there is no server. */
  requests(): Promise<readonly string[] | undefined>;
}

export interface StoreKind {
  /** The store of one scenario on its sandbox. */
  open(sandbox: Sandbox, recording: Recording): Promise<ReplayStore>;
  /** The part of a recorded state that a store of this kind can hold at all. */
  comparable(recorded: StoredState): StoredState;
}
