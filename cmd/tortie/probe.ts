/** `-t`: can the datastore of this configuration be reached, and is it ready? (C§0.3) No CNI variable and no node file is looked at. */
import type { Environment } from "../../lib/cni/environment.ts";
import { renderError } from "../../lib/cni/error-output.ts";
import { readStandardInput } from "../../lib/cni/stdin.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { openDatastore } from "../../lib/datastore/open.ts";
import { messageOf, TortieError } from "../../lib/errors.ts";
import { parseJson } from "../../lib/json/parse.ts";
import { isJsonObject } from "../../lib/json/value.ts";
import { print } from "../plugin.ts";

/** @returns the exit status; prints nothing on success */
export async function probe(env: Environment): Promise<number> {
  try {
    const netconf = parseJson(readStandardInput());
    if (!isJsonObject(netconf)) throw new Error("failed to load netconf: a JSON object is wanted");
    const config = decodeNetworkConfig(netconf);
    if (!/^[a-zA-Z0-9_.-]+$/.test(config.name)) {
      throw new Error(
        "invalid characters detected in the given network name. Only letters a-z, numbers 0-9, and symbols _.- are supported",
      );
    }
    await using datastore = await openDatastore(config, env);
    const information = await datastore.clusterInformation.get("default");
    if (information !== undefined && information.value.datastoreReady !== true) {
      throw new Error("Calico is currently not ready to process requests");
    }
    return 0;
  } catch (error) {
    print(
      renderError(new TortieError("datastore-probe-failed", "data store connection failed", { cause: error, details: messageOf(error) })),
    );
    return 1;
  }
}
