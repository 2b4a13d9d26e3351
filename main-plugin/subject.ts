/**
 * What is known of a workload before its attachment is planned: what it wishes for, what its record says that it has, and where that
 * record is written. A plain container's record is an endpoint in the datastore; a pod's on Kubernetes is three annotations of its own.
 */
import type { NetworkConfig } from "../lib/config/network-config.ts";
import type { Datastore } from "../lib/datastore/datastore.ts";
import type { WorkloadEndpoint } from "../lib/datastore/resources.ts";
import { withoutAnnotations } from "../lib/workload/annotations/no-annotations.ts";
import type { PodWishes } from "../lib/workload/annotations/wishes.ts";
import { workloadEndpointNamePrefix } from "../lib/workload/endpoint-name.ts";
import type { WorkloadIdentity } from "../lib/workload/identity.ts";
import type { Access } from "./access.ts";
import type { Attachment } from "./attachment.ts";
import { writeEndpoint } from "./endpoint-store.ts";
import type { IpamInput } from "./ipam-input.ts";

/** What a record says: which container has which addresses, /32 and /128. */
export type RecordedAddresses = Pick<WorkloadEndpoint, "containerID" | "ipNetworks">;

export interface Subject {
  /** With the name that the endpoint's record has, which need not be that of the interface (C§2.1 step 13). */
  readonly identity: WorkloadIdentity;
  readonly wishes: PodWishes;
  /** The input of the IPAM plugin with the pools and families that the pod wishes for (C§2.3 S6). */
  adapt(input: IpamInput): IpamInput;
  /** Translations of the floating addresses that the pod wishes for. @throws TortieError `annotation-invalid` */
  nats(ipNetworks: readonly string[]): WorkloadEndpoint["ipNATs"];
  /** Of whichever container got it; `undefined` when nobody has addresses. */
  readonly known: RecordedAddresses | undefined;
  /** The same in whole, where it is kept whole. */
  readonly record: WorkloadEndpoint | undefined;
  /** Whether another interface of this container has a record of its own. */
  hasSibling(): Promise<boolean>;
  /** The last step of an ADD. */
  write(endpoint: WorkloadEndpoint): Promise<void>;
}

/**
 * @throws TortieError `annotation-invalid`, `feature-disabled`, `identity-invalid`, `datastore-object-missing`; DatastoreError
 */
export async function readSubject(attachment: Attachment, config: NetworkConfig, access: Access): Promise<Subject> {
  if (access.datastoreType !== "kubernetes") return storedSubject(attachment, config, await access.datastore());
  const { readPodSubject } = await import("./pod-subject.ts");
  return readPodSubject(attachment, config, access);
}

/** The container that an earlier ADD of this attachment gave addresses to is this one: it may be using them. */
export function isRepeated({ known }: Pick<Subject, "known">, containerId: string): boolean {
  return known?.containerID === containerId && known.ipNetworks.length > 0;
}

async function storedSubject(attachment: Attachment, config: NetworkConfig, datastore: Datastore): Promise<Subject> {
  const { identity, endpointKey, args } = attachment;
  const record = (await datastore.endpoints.get(endpointKey))?.value;
  return {
    identity,
    wishes: withoutAnnotations(config, args),
    adapt: (input) => input,
    nats: () => [],
    known: record,
    record,
    async hasSibling() {
      const prefix = workloadEndpointNamePrefix({ ...identity, endpoint: "" });
      const siblings = await datastore.endpoints.listByPrefix(endpointKey.namespace, prefix);
      return siblings.some(({ value }) => value.containerID === identity.containerId);
    },
    write: (endpoint) => writeEndpoint(datastore, endpoint),
  };
}
