/**
 * TortieEndpoint objects of nodes that are gone, whose agents cannot delete them any more (A§6.4). Items are `object <namespace>/<name>`.
 */
import { ApiError } from "../../lib/kubernetes/api-client.ts";
import { ENDPOINT_PATH, type EndpointObject } from "../view/cluster-view.ts";
import type { Duty, DutyContext } from "./duty.ts";

export class EndpointObjects implements Duty {
  readonly name = "endpoint-objects";
  readonly #context: DutyContext;

  constructor(context: DutyContext) {
    this.#context = context;
  }

  async look(): Promise<readonly string[]> {
    const { observations, clock, nodeGraceMs } = this.#context;
    const orphans = this.#orphans();
    const now = clock.now();
    observations.look("object", orphans.map(keyOf), now);
    return orphans
      .filter((object) => observations.isConfirmed("object", keyOf(object), nodeGraceMs, now))
      .map(({ namespace, name }) => `object ${namespace}/${name}`);
  }

  async work(item: string): Promise<void> {
    const { observations, clock, nodeGraceMs, live, client, log } = this.#context;
    const found = this.#orphans().find(({ namespace, name }) => item === `object ${namespace}/${name}`);
    if (found === undefined || !observations.isConfirmed("object", keyOf(found), nodeGraceMs, clock.now())) return;
    const { namespace, name, uid, resourceVersion, node } = found;
    if (await live.hasNode(node)) return;
    const body = JSON.stringify({ apiVersion: "v1", kind: "DeleteOptions", preconditions: { uid, resourceVersion } });
    try {
      await client.request({ method: "DELETE", path: `${ENDPOINT_PATH}/namespaces/${namespace}/tortieendpoints/${name}`, body });
      log.info(`deleted TortieEndpoint ${namespace}/${name}: node ${node} is gone`);
    } catch (error) {
      // Gone already, or written by an agent since: then it is that agent's.
      if (!(error instanceof ApiError && (error.status === 404 || error.status === 409))) throw error;
    }
  }

  /** A pod that still runs for the API server may come back with its node. */
  #orphans(): readonly EndpointObject[] {
    const { view } = this.#context;
    view.mustBeComplete();
    return view.endpointObjects.filter(({ namespace, name, node }) => {
      const pod = view.pod(namespace, name);
      return node !== "" && !view.hasNode(node) && (pod === undefined || pod.isFinished || pod.node !== node);
    });
  }
}

function keyOf({ namespace, name, uid, resourceVersion }: EndpointObject): string {
  return `${namespace}/${name} ${uid} ${resourceVersion}`;
}
