/** Shows how this agent runs, as `GET /v1/config` does, and changes the few options that may change meanwhile (A§2.3). */

import type { AgentFile } from "../../handover/run-directory.ts";
import type { Environment } from "../../lib/cni/protocol.ts";
import { chooseDatastore } from "../../lib/config/datastore-choice.ts";
import { DEFAULT_NODENAME_FILE, decodeNetworkConfig } from "../../lib/config/decode.ts";
import { assertNodeName, nodeName } from "../../lib/config/node-name.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { JsonObject } from "../../lib/json/value.ts";
import { checkOption } from "../../lib/resident/options.ts";
import { AGENT, type AgentOptions, OPTION_NAMES } from "./options.ts";

const KNOWN: ReadonlySet<string> = new Set(OPTION_NAMES);
/** Options that the running agent can take over, by PATCH or by SIGHUP. */
const CHANGEABLE: ReadonlySet<string> = new Set(["log-level"]);

export interface ConfigurationParts {
  readonly options: AgentOptions;
  readonly env: Environment;
  readonly version: string;
  readonly bootId: string;
  phase(): AgentFile["phase"];
  setLevel(level: AgentOptions["log-level"]): void;
}

export class Configuration {
  readonly #parts: ConfigurationParts;
  #changed: Readonly<Record<string, unknown>> = {};

  constructor(parts: ConfigurationParts) {
    this.#parts = parts;
  }

  /** @param addressing of this node; `undefined` where it has no range, or none is known yet */
  show<A>(addressing: A | undefined) {
    const { options, env, version, bootId, phase } = this.#parts;
    const now: Readonly<Record<string, unknown>> = { ...options, ...this.#changed };
    return {
      spec: { options: Object.fromEntries(OPTION_NAMES.map((name) => [name, String(now[name] ?? "")])) },
      status: {
        version,
        phase: phase(),
        "node-name": nameOfNode(options, env),
        "ipam-mode": options.ipam,
        datastore: datastoreOf(options, env),
        "run-dir": options["run-dir"],
        "boot-id": bootId,
        addressing,
      },
    };
  }

  /** @throws TortieError `option-invalid`; nothing is changed then */
  change(given: Readonly<Record<string, string>>): void {
    const unknown = Object.keys(given).filter((name) => !KNOWN.has(name));
    if (unknown.length > 0) throw new TortieError("option-invalid", `${unknown.join(", ")}: there is no such option`);
    const fixed = Object.keys(given).filter((name) => !CHANGEABLE.has(name));
    if (fixed.length > 0) throw new TortieError("option-invalid", `${fixed.join(", ")}: cannot be changed while the agent runs`);
    for (const [name, value] of Object.entries(given)) checkOption(AGENT, name, value);
    this.#changed = { ...this.#changed, ...given };
    const level = ({ debug: "debug", info: "info", error: "error" } as const)[given["log-level"] ?? ""];
    if (level !== undefined) this.#parts.setLevel(level);
  }

  /** Takes over what can be, from the sources read once more. @returns the options that have changed and need a new start */
  reread(next: AgentOptions): readonly string[] {
    const { options } = this.#parts;
    this.#changed = { "log-level": next["log-level"] };
    this.#parts.setLevel(next["log-level"]);
    return OPTION_NAMES.filter((name) => !CHANGEABLE.has(name) && next[name] !== options[name]);
  }
}

/** Returns the name of the node object (A§1.1). @throws TortieError `nodename-invalid` */
export function nameOfNode(options: Pick<AgentOptions, "node-name">, env: Environment): string {
  const nodename = options["node-name"] ?? env.K8S_NODE_NAME;
  const name = nodeName({ nodename, nodenameFile: DEFAULT_NODENAME_FILE, hostname: undefined });
  assertNodeName(name);
  return name;
}

/** Returns the keys of a network configuration that the options stand for. */
export function datastoreKeys(options: Pick<AgentOptions, "datastore-type" | "datastore-path" | "kubeconfig">): JsonObject {
  const [type, path, kubeconfig] = [options["datastore-type"], options["datastore-path"], options.kubeconfig];
  return {
    ...(type === undefined ? {} : { datastore_type: type }),
    ...(path === undefined ? {} : { datastore_path: path }),
    ...(kubeconfig === undefined ? {} : { kubernetes: { kubeconfig } }),
  };
}

function datastoreOf(options: AgentOptions, env: Environment): "local" | "kubernetes" | "etcdv3" {
  return chooseDatastore(decodeNetworkConfig({ name: "tortie-node", ...datastoreKeys(options) }), env);
}
