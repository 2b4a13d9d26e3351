/**
 * What drivers differ in beyond the port's promises, as data: a flow asks for a trait, never for the name of a driver. The traits are
 * known before a datastore is opened.
 */
import type { DatastoreType } from "../config/network-config.ts";
import type { NameRules } from "../workload/identity.ts";

export interface Traits extends NameRules {
  /**
   * Who makes the pools. `netconf`: the network configuration of each call names them, and the node is alone with its store. `cluster`:
   * an administrator, in a store that many nodes share and that ClusterInformation can pause.
   */
  readonly poolsFrom: "netconf" | "cluster";
  /** Nodes and namespaces are objects: one that is not found does not exist. Otherwise one that is not found exists, without labels. */
  readonly nodesAreObjects: boolean;
  /** Handle ids that differ in case only are one object, which has the id of the first writer (I§2.2). */
  readonly foldsHandleCase: boolean;
  /** There is an index of the blocks that have room: `Blocks.listWithRoom`. */
  readonly findsRoom: boolean;
  /** Lists with `mayBeOld` cost less than others, and so may reads. */
  readonly listsFromMemory: boolean;
  /** Pods may belong to virtual machines, whose objects can be read. Without them every pod is an ordinary one. */
  readonly hasVirtualMachines: boolean;
  /** `annotations`: endpoints are a view of pods, of which only annotations can be written, and whose deletion ends the endpoint. */
  readonly endpointsAre: "objects" | "annotations";
}

export const LOCAL_TRAITS: Traits = {
  poolsFrom: "netconf",
  takesNames: "any",
  nodesAreObjects: false,
  foldsHandleCase: false,
  findsRoom: true,
  listsFromMemory: false,
  hasVirtualMachines: false,
  endpointsAre: "objects",
};

export const KUBERNETES_TRAITS: Traits = {
  poolsFrom: "cluster",
  takesNames: "handles",
  nodesAreObjects: true,
  // The object's name is the id in lower case.
  foldsHandleCase: true,
  findsRoom: false,
  // The API server's watch cache, in front of etcd.
  listsFromMemory: true,
  hasVirtualMachines: true,
  endpointsAre: "annotations",
};

export const ETCD_TRAITS: Traits = {
  poolsFrom: "cluster",
  takesNames: "fields",
  nodesAreObjects: true,
  foldsHandleCase: false,
  findsRoom: false,
  listsFromMemory: false,
  // Where an API server is configured beside it: the open datastore says so.
  hasVirtualMachines: false,
  endpointsAre: "objects",
};

const TRAITS: Readonly<Record<DatastoreType, Traits>> = { local: LOCAL_TRAITS, kubernetes: KUBERNETES_TRAITS, etcdv3: ETCD_TRAITS };

/** Of the datastore that `chooseDatastore` has chosen, open or not. */
export function traitsOf(type: DatastoreType): Traits {
  return TRAITS[type];
}
