/** CNI_ARGS: `KEY=VALUE` pairs joined by `;` (C§1.5, I§1.4). */
import { type Address, parseAddress } from "../addresses/address.ts";
import { TortieError } from "../errors/errors.ts";

/** Absent keys are empty strings. */
export interface CniArgs {
  readonly podName: string;
  readonly podNamespace: string;
  /** K8S_POD_UID, by which the runtime knows the pod: of a static pod not that of its mirror. `undefined` when absent or empty. */
  readonly podUid: string | undefined;
  readonly infraContainerId: string;
  /** `IP=`; `undefined` when absent or empty. */
  readonly ip: Address | undefined;
  /** `MAC=`, Tortie's own key, as it came: `requestedMac` judges it, so that DEL does not depend on it. */
  readonly mac: string;
  /** Namespace of a plain container, for tests. */
  readonly testNamespace: string;
}

/** Keys that need no IgnoreUnknown where a workload is identified: by DEL and by the first look of ADD (I§1.4). */
const IDENTITY_KEYS: readonly string[] = ["IP", "MAC", "K8S_POD_NAME", "K8S_POD_NAMESPACE", "K8S_POD_INFRA_CONTAINER_ID"];

/** Keys that need no IgnoreUnknown where the IPAM plugin's ADD reads the address it is asked for (I§1.4, recording args-09). */
export const ADDRESS_KEYS: readonly string[] = ["IP", "MAC"];

/**
 * What the main plugin reads and its IPAM plugin inherits: the runtime's own keys, K8S_POD_UID and the like, must not fail either
 * (C§0.1). An `IgnoreUnknown=0` further back still wins (recording args-15).
 */
export function withIgnoreUnknown(args: string): string {
  return args === "" ? "IgnoreUnknown=1" : `IgnoreUnknown=1;${args}`;
}

/**
 * Of a repeated key the last value counts. All keys are read whatever `known` holds; `known` only decides which ones are an error
 * without IgnoreUnknown.
 *
 * @param known case-sensitive
 * @throws TortieError `arguments-invalid` with Calico's texts, "ARGS: …"
 */
export function parseCniArgs(text: string, known: readonly string[] = IDENTITY_KEYS): CniArgs {
  const values = new Map<string, string>();
  const unknown: string[] = [];
  let ignoresUnknown = false;
  let ip: Address | undefined;
  for (const pair of text === "" ? [] : text.split(";")) {
    const parts = pair.split("=");
    const [key, value] = parts;
    if (parts.length !== 2 || key === undefined || value === undefined) throw invalid(`invalid pair ${JSON.stringify(pair)}`);
    values.set(key, value);
    if (key === "IgnoreUnknown") ignoresUnknown = readBoolean(pair, value);
    else if (key === "IP") ip = readAddress(pair, value);
    else if (!known.includes(key)) unknown.push(pair);
  }
  if (unknown.length > 0 && !ignoresUnknown) throw invalid(`unknown args [${unknown.map((pair) => JSON.stringify(pair)).join(" ")}]`);

  const textOf = (key: string) => values.get(key) ?? "";
  return {
    podName: textOf("K8S_POD_NAME"),
    podNamespace: textOf("K8S_POD_NAMESPACE"),
    podUid: textOf("K8S_POD_UID") || undefined,
    infraContainerId: textOf("K8S_POD_INFRA_CONTAINER_ID"),
    ip,
    mac: textOf("MAC"),
    testNamespace: textOf("CNI_TEST_NAMESPACE"),
  };
}

function readBoolean(pair: string, value: string): boolean {
  const word = value.toLowerCase();
  if (word === "1" || word === "true") return true;
  if (word === "0" || word === "false") return false;
  throw invalid(`error parsing value of pair ${JSON.stringify(pair)}: boolean unmarshal error: invalid input ${value}`);
}

/** An empty value asks for nothing (recording ip-text-2). */
function readAddress(pair: string, value: string): Address | undefined {
  if (value === "") return undefined;
  const address = parseAddress(value);
  if (address === undefined) throw invalid(`error parsing value of pair ${JSON.stringify(pair)}: invalid IP address: ${value}`);
  return address;
}

function invalid(message: string): TortieError {
  return new TortieError("arguments-invalid", `ARGS: ${message}`);
}
