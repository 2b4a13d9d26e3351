/** Node objects of an API server: this node by a watch, the others by one list, annotations by a merge PATCH (A§1.7). */
import { objects, parseObject } from "../../lib/json/decode.ts";
import { statusError } from "../../lib/kubernetes/client/answers.ts";
import type { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import type { Informers } from "../../lib/kubernetes/watch/informers.ts";
import { annotateNode } from "./annotate-node.ts";
import type { NodeObjects } from "./node-cidr.ts";
import { type NodeFacts, nodeFacts } from "./node-facts.ts";

const NODES = "/api/v1/nodes";

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
