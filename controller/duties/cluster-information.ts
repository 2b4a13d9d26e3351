/**
 * ClusterInformation `default` of a new cluster, which says that plugins may work. One that is there stays as it is: an upgrade or a
 * migration may have paused the cluster with it. The only item is `default`.
 */
import type { ApiGroup } from "../../lib/datastore/calico/group.ts";
import { ApiError } from "../../lib/kubernetes/api-client.ts";
import type { Duty, DutyContext } from "./duty.ts";
import { MADE_BY, US } from "./first-pools.ts";

const ITEM = "default";

export class ClusterInformationMark implements Duty {
  readonly name = "cluster-information";
  readonly #context: DutyContext;
  readonly #group: ApiGroup;
  /** Seen in this term: whoever deletes it later means it. */
  #wasSeen = false;

  constructor(context: DutyContext, group: ApiGroup) {
    this.#context = context;
    this.#group = group;
  }

  async look(): Promise<readonly string[]> {
    return (await this.#isThere()) ? [] : [ITEM];
  }

  async work(): Promise<void> {
    if (await this.#isThere()) return;
    const { client, log } = this.#context;
    const metadata = { name: ITEM, labels: { [MADE_BY]: US } };
    const body = JSON.stringify({ apiVersion: this.#group, kind: "ClusterInformation", metadata, spec: { datastoreReady: true } });
    try {
      await client.request({ method: "POST", path: `/apis/${this.#group}/clusterinformations`, body });
      log.info("ClusterInformation default is made: plugins may work");
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 409)) throw error;
    }
  }

  async #isThere(): Promise<boolean> {
    this.#wasSeen ||= (await this.#context.datastore.clusterInformation.get(ITEM)) !== undefined;
    return this.#wasSeen;
  }
}
