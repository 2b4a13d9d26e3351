/** Opens the datastore that a command is about: a local file, a cluster, the one that a network configuration names, or the default. */

import { existsSync } from "node:fs";
import { addressesOf, keyOf } from "../../../doctor/snapshot.ts";
import { stepLock, takeNodeLock } from "../../../ipam-plugin/node-lock.ts";
import type { Address } from "../../../lib/addresses/address.ts";
import type { Environment } from "../../../lib/cni/protocol.ts";
import { configOfConflist } from "../../../lib/config/conflist.ts";
import { chooseDatastore } from "../../../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../../../lib/config/decode.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { BULK_RATE } from "../../../lib/config/limits.ts";
import type { Datastore } from "../../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../../lib/datastore/errors.ts";
import { openDatastore } from "../../../lib/datastore/open.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { NEVER } from "../../../lib/system/waiting.ts";
import { note, type Output, type Terminal } from "../terminal.ts";

/** Has what every command takes that is about a datastore. */
export interface StoreOptions {
  readonly datastore: string | undefined;
  readonly conf: string | undefined;
  readonly kubeconfig: string | undefined;
  readonly json: boolean;
}

export interface ShowOptions extends StoreOptions {
  readonly output: Output;
  readonly blocks: boolean;
  readonly ip: string | undefined;
}

export interface Store extends AsyncDisposable {
  readonly datastore: Datastore;
  /** A file of this node, which no other node knows of. */
  readonly isLocal: boolean;
  /** What lists had to leave out so far, or could read in part only: a message for each object. */
  readonly unreadable: ReadonlySet<string>;
  /** The lock of this node's plugins. */
  readonly lock: Pick<NetworkConfig, "ipamLockFile" | "ipamLockTimeoutSeconds">;
}

/**
 * @param defaults variables of the environment where it does not set them itself
 * @param mayBeMade whether a local file that is not there is made; else that is an error, since looking must not change anything
 * @throws TortieError `conflist-unreadable`, `conflist-invalid`, `datastore-unavailable`, and what opening throws
 */
export async function openStore(options: StoreOptions, mayBeMade = false, defaults: Environment = {}): Promise<Store> {
  const env = { ...BULK_RATE, ...defaults, ...environmentOf(options) };
  requireNamed(options, env);
  const config = configOf(options);
  const isLocal = chooseDatastore(config, env) === "local";
  if (isLocal && !mayBeMade && !existsSync(config.datastorePath)) {
    throw new TortieError("datastore-unavailable", `local datastore ${config.datastorePath} does not exist`, {
      next: "give the file with --datastore or --conf, or a cluster with --kubeconfig; the first ADD of a container makes the file",
    });
  }
  const unreadable = new Set<string>();
  const datastore = await openDatastore(config, env, ({ message }) => void unreadable.add(message));
  return { datastore, isLocal, unreadable, lock: config, [Symbol.asyncDispose]: () => datastore[Symbol.asyncDispose]() };
}

/** Stands for etcd and not for a file as the value of --datastore: the members, files and user are those of ETCD_ENDPOINTS and its like. */
const ETCD = "etcdv3";

/** Lets --datastore and --kubeconfig win over everything that the environment says about datastores. */
function environmentOf({ datastore, kubeconfig }: StoreOptions): Environment {
  if (datastore === ETCD) return { ...process.env, CALICO_DATASTORE_TYPE: ETCD };
  if (datastore !== undefined) return {};
  if (kubeconfig === undefined) return process.env;
  const { CALICO_K8S_API_ENDPOINT: _, K8S_API_ENDPOINT: __, ...others } = process.env;
  return { ...others, CALICO_DATASTORE_TYPE: "kubernetes", CALICO_KUBECONFIG: kubeconfig };
}

/** Requires that what the command line leads to is there: later a message would be about a key or a call of the system. */
function requireNamed({ datastore, kubeconfig }: StoreOptions, env: Environment): void {
  if (kubeconfig !== undefined) requireKubeconfig(kubeconfig);
  if (datastore !== ETCD || [env.ETCD_ENDPOINTS, env.ETCD_DISCOVERY_SRV, env.ETCD_AUTHORITY].some((value) => (value ?? "") !== "")) return;
  throw new TortieError("argument-missing", "which etcd? ETCD_ENDPOINTS is not set", {
    next: "set it, for instance ETCD_ENDPOINTS=http://127.0.0.1:2379; docs/explanation/datastores.md has the variables for certificates and users",
  });
}

/** @throws TortieError `kubeconfig-unreadable` */
export function requireKubeconfig(file: string): void {
  if (!existsSync(file)) throw new TortieError("kubeconfig-unreadable", `kubeconfig ${file} does not exist`);
}

function configOf({ datastore, conf, kubeconfig }: StoreOptions): NetworkConfig {
  if (conf !== undefined) return configOfConflist(conf);
  if (kubeconfig !== undefined) return decodeNetworkConfig({ datastore_type: "kubernetes", kubernetes: { kubeconfig } });
  return decodeNetworkConfig(datastore === undefined || datastore === ETCD ? {} : { datastore_type: "local", datastore_path: datastore });
}

/** Remarks about what could not be read, for commands that show what could. */
export function noteUnreadable({ unreadable }: Pick<Store, "unreadable">, terminal: Terminal): void {
  for (const message of unreadable) note(terminal, `stored object: ${message}`);
}

/** Takes the lock of this node's plugins for one step after the other. If it cannot be taken it warns and goes on, as the plugins do (I§1.8). */
export function lockOf({ lock }: Store, file: string | undefined, terminal: Terminal): () => Promise<Disposable> {
  const warn = (message: string): void => note(terminal, message);
  const log = { info: () => {}, error: warn, writeNow: () => {} };
  const config = { ...lock, ipamLockFile: file ?? lock.ipamLockFile };
  return stepLock({ config, log, signal: NEVER }, { lock: takeNodeLock });
}

/**
 * Names the endpoints that use each of the addresses, by `keyOf`; unused addresses are left out. In a cluster this needs the right to
 * list pods, which the plugins' account lacks.
 *
 * @returns `undefined` when the account may not list endpoints
 */
export async function endpointNames(
  { endpoints }: Datastore,
  addresses: readonly Address[],
): Promise<ReadonlyMap<string, readonly string[]> | undefined> {
  const wanted = new Set(addresses.map(keyOf));
  const names = new Map<string, string[]>();
  try {
    for (const { value } of await endpoints.list()) {
      for (const key of new Set(addressesOf(value).map(keyOf))) {
        if (wanted.has(key)) names.getOrInsert(key, []).push(`${value.namespace}/${value.name}`);
      }
    }
  } catch (error) {
    if (isDatastoreFailure(error, "unauthorized")) return undefined;
    throw error;
  }
  return names;
}
