/**
 * Reads Node objects of an API server, this node by a watch and the others by one list, and annotates its own by a merge PATCH (A§1.7).
 * Reports that the agent waits for ranges, which mostly means for the Node object (A§1.3).
 */

import { type Address, parseAddress } from "../../../lib/addresses/address.ts";
import { type Fields, field, has, isText, listOf, objects, parseObject, section, text, texts } from "../../../lib/json/decode.ts";
import { statusError } from "../../../lib/kubernetes/client/answers.ts";
import type { ApiConnection } from "../../../lib/kubernetes/client/connection.ts";
import type { Informers } from "../../../lib/kubernetes/watch/informers.ts";
import type { Clock } from "../../../lib/system/waiting.ts";

const NODES = "/api/v1/nodes";

/** The cluster as far as it knows of nodes. */
export interface NodeObjects {
  /** Reads this node from the watch; `undefined` while it is not there, or not known. */
  own(): NodeFacts | undefined;
  /** Says why `own` has nothing. */
  problem(): string;
  onChange(listener: () => void): void;
  /** Lists every node as it is now: every write before the question is in the answer. */
  list(): Promise<readonly NodeFacts[]>;
  annotate(annotations: Readonly<Record<string, string | null>>): Promise<void>;
}

export function nodeObjects(connection: ApiConnection, informers: Informers, name: string): NodeObjects {
  const cache = informers.watch<NodeFacts>({
    name: `node ${name}`,
    path: NODES,
    fieldSelector: `metadata.name=${name}`,
    decode: nodeFacts,
  });
  const listeners: (() => void)[] = [];
  const tell = () => {
    for (const listener of listeners) listener();
  };
  cache.onChange(tell);
  // A list without the node changes nothing, but is worth a look: it says what there is to wait for.
  void cache.untilSynced().then(tell, () => undefined);
  return {
    own: () => cache.get(name),
    problem: () => (cache.state.isSynced ? `node ${name} does not exist` : (cache.state.problem ?? `node ${name} has not been read yet`)),
    onChange: (listener) => void listeners.push(listener),
    async list() {
      const answer = await connection.exchange({ method: "GET", path: NODES });
      if (answer.status !== 200) throw refusal(`list ${NODES}`, answer, connection);
      return objects(parseObject(answer.body), "items").map(nodeFacts);
    },
    annotate: (annotations) => annotateNode(connection, name, annotations),
  };
}

function refusal(what: string, answer: Parameters<typeof statusError>[1], connection: Pick<ApiConnection, "redact">): Error {
  return statusError(what, { ...answer, body: connection.redact(answer.body) }, false);
}

/** What the agent reads of a Node object. */
export interface NodeFacts {
  readonly name: string;
  /** RFC 3339, dated by the API server. */
  readonly createdAt: string;
  /** As they are: the API server judges them, and an older one may not have. */
  readonly podCIDRs: readonly string[];
  readonly podCIDR: string;
  readonly annotations: Readonly<Record<string, string>>;
  /** `status.addresses` of types InternalIP and ExternalIP, internal ones first; bad ones are left out. */
  readonly addresses: readonly Address[];
}

/** @throws Error naming the field */
export function nodeFacts(object: Fields): NodeFacts {
  const metadata = section(object, "metadata");
  const spec = section(object, "spec");
  const addresses = objects(section(object, "status"), "addresses");
  const ofType = (type: string) =>
    addresses.filter((one) => text(one, "type") === type).flatMap((one) => parseAddress(text(one, "address")) ?? []);
  return {
    name: text(metadata, "name"),
    createdAt: text(metadata, "creationTimestamp"),
    podCIDRs: has(spec, "podCIDRs") ? field(spec, "podCIDRs", listOf(isText)) : [],
    podCIDR: text(spec, "podCIDR"),
    annotations: texts(metadata, "annotations"),
    addresses: [...ofType("InternalIP"), ...ofType("ExternalIP")],
  };
}

/** Merges annotations into those that the Node object has. @param annotations `null` removes one @throws ApiError; TransportError */
export async function annotateNode(
  connection: Pick<ApiConnection, "exchange" | "redact">,
  name: string,
  annotations: Readonly<Record<string, string | null>>,
): Promise<void> {
  // The status sub-resource takes metadata as well, so that the role needs no right to change nodes.
  const path = `/api/v1/nodes/${encodeURIComponent(name)}/status`;
  const answer = await connection.exchange({
    method: "PATCH",
    path,
    body: JSON.stringify({ metadata: { annotations } }),
    contentType: "application/merge-patch+json",
  });
  if (answer.status >= 300) throw refusal(`patch ${path}`, answer, connection);
}

const REPEAT_MS = 30_000;

export interface WaitingState {
  /** `node-object`, `node-list` for the comparison with other nodes, or the word of the error. */
  readonly what: string;
  readonly cause: string;
  /** On the clock that never jumps. */
  readonly sinceMs: number;
}

/** Says what the agent waits for once and then every half minute, and shows it with its beginning (A§1.3). */
export class Waiting {
  readonly #clock: Pick<Clock, "now">;
  readonly #log: { error(message: string): void; info(message: string): void };
  readonly #beganMs: number;
  #state: WaitingState | undefined;
  #saidMs = Number.NEGATIVE_INFINITY;
  #saidCause = "";

  constructor(clock: Pick<Clock, "now">, log: { error(message: string): void; info(message: string): void }) {
    this.#clock = clock;
    this.#log = log;
    this.#beganMs = clock.now();
    this.#state = { what: "node-object", cause: "nothing is known yet", sinceMs: this.#beganMs };
  }

  get state(): WaitingState | undefined {
    return this.#state;
  }

  for(what: string, cause: string): void {
    const now = this.#clock.now();
    this.#state = { what, cause, sinceMs: this.#state?.sinceMs ?? now };
    if (cause === this.#saidCause && now - this.#saidMs < REPEAT_MS) return;
    this.#saidMs = now;
    this.#saidCause = cause;
    this.#log.error(`Waiting for k8s node information: ${cause}`);
  }

  over(): void {
    if (this.#saidCause !== "") this.#log.info("the wait for k8s node information is over");
    this.#saidCause = "";
    this.#state = undefined;
  }
}
