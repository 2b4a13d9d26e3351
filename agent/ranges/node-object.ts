/** Node objects of an API server: this node by a watch, the others by one list, annotations by a merge PATCH (A§1.7). */

import { type Address, parseAddress } from "../../lib/addresses/address.ts";
import { type Fields, field, has, isText, listOf, objects, parseObject, section, text, texts } from "../../lib/json/decode.ts";
import { statusError } from "../../lib/kubernetes/client/answers.ts";
import type { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import type { Informers } from "../../lib/kubernetes/watch/informers.ts";
import { annotateNode } from "./annotate-node.ts";

const NODES = "/api/v1/nodes";

/** The cluster as far as it knows of nodes. */
export interface NodeObjects {
  /** This node as the watch has it; `undefined` while it is not there, or not known. */
  own(): NodeFacts | undefined;
  /** Why `own` has nothing. */
  problem(): string;
  onChange(listener: () => void): void;
  /** Every node as it is now: every write before the question is in the answer. */
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
  // A list without the node is no change, and worth a look: it says what there is to wait for.
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

function refusal(what: string, answer: Parameters<typeof statusError>[1], connection: ApiConnection): Error {
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
