/** Answers `-t`: can the datastore of this configuration be reached, and is it ready? (C§0.3) It needs no CNI variable and no node file. */

import { renderError } from "../lib/cni/error-output.ts";
import type { Environment } from "../lib/cni/protocol.ts";
import { readStandardInput } from "../lib/cni/request.ts";
import type { NetworkConfig } from "../lib/config/decode.ts";
import { decodeNetworkConfig } from "../lib/config/decode.ts";
import type { Datastore } from "../lib/datastore/datastore.ts";
import { openDatastore } from "../lib/datastore/open.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { parseJson } from "../lib/json/parse.ts";
import { isJsonObject, type JsonObject } from "../lib/json/value.ts";
import { inTime } from "../lib/system/waiting.ts";
import { assertClusterReady } from "../main-plugin/gates.ts";

/** Limits each question to the datastore (C§0.3). */
const TIME_LIMIT_MS = 2000;

/** @returns the error to print, `undefined` on success */
export async function probe(env: Environment): Promise<string | undefined> {
  try {
    const netconf = readNetconf();
    const config = decodeNetworkConfig(netconf);
    if (!/^[a-zA-Z0-9_.-]+$/.test(config.name)) {
      throw new Error(
        "invalid characters detected in the given network name. Only letters a-z, numbers 0-9, and symbols _.- are supported",
      );
    }
    await using datastore = await openDatastore(config, env);
    await askDatastore(datastore, config);
    return undefined;
  } catch (error) {
    return renderError(
      new TortieError("datastore-probe-failed", "data store connection failed", { cause: error, details: messageOf(error) }),
    );
  }
}

function readNetconf(): JsonObject {
  try {
    const netconf = parseJson(readStandardInput());
    if (isJsonObject(netconf)) return netconf;
  } catch (error) {
    throw new Error(`failed to load netconf: ${messageOf(error)}`, { cause: error });
  }
  throw new Error("failed to load netconf: a JSON object is wanted");
}

async function askDatastore(datastore: Datastore, config: NetworkConfig): Promise<void> {
  if (datastore.traits.poolsFrom === "netconf") {
    await datastore.clusterInformation.get("default");
    return;
  }
  await answered("ClusterInformation", datastore, assertClusterReady(datastore, { datastore: async () => datastore }));
  const core = datastore.core;
  if (config.kubernetes.kubeconfig === undefined || core === undefined) return;
  await answered("the version of the API server", datastore, core.serverVersion(TIME_LIMIT_MS));
}

/** Limits the wait for an answer: the client's own limits are those of an ADD, which can wait. */
function answered<T>(what: string, datastore: Datastore, answer: Promise<T>): Promise<T> {
  const late = new Error(`error getting ${what}: no answer from ${datastore.description} within ${TIME_LIMIT_MS} ms`);
  return inTime(TIME_LIMIT_MS, late, answer);
}
