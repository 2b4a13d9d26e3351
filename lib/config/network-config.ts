/**
 * The decoded network configuration: every key of C§1.2, plus Tortie's own (`datastore_path`, `ipam.pools`, `ipam.in_process`). Field names
 * are the keys in camel case; decode.ts says what each of them is, and fills in the defaults that need no outside knowledge.
 */
import type { decodeNetworkConfig } from "./decode.ts";

export type NetworkConfig = Readonly<ReturnType<typeof decodeNetworkConfig>>;
export type EtcdConfig = NetworkConfig["etcd"];
type IpamConfig = NetworkConfig["ipam"];
/** One entry of `ipam.pools`: a pool of the local datastore, made at first use. Values are judged by `checkLocalPools`. */
export type LocalPool = IpamConfig["pools"][number];
/** A label that Mesos gives a plain container. */
export type MesosLabel = NetworkConfig["mesosLabels"][number];

export type DatastoreType = "local" | "kubernetes" | "etcdv3";
