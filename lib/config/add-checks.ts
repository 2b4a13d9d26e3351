/** Judges values that only ADD needs, before anything is touched. DEL must not call these (design, invariant 4). */
import { TortieError } from "../errors/errors.ts";
import { checkPolicyType } from "./datastore-choice.ts";
import type { DatastoreType, NetworkConfig } from "./decode.ts";
import { AZURE_IPAM, checkLocalPools } from "./ipam-section.ts";
import { AGENT_MODES, problemOfAgentLimits, problemOfIpamLockTimeout } from "./limits.ts";

/**
 * Checks everything below. STATUS may call it too: it says whether an ADD could succeed.
 * @throws TortieError `netconf-value` naming the key
 */
export function checkForAdd(config: NetworkConfig, datastore: DatastoreType): void {
  for (const [, check] of ADD_CHECKS) check(config, datastore);
}

type AddCheck = (config: NetworkConfig, datastore: DatastoreType) => void;

/** Each check with the key that it is about, in the order of `checkForAdd`. */
export const ADD_CHECKS: readonly (readonly [key: string, check: AddCheck])[] = [
  ["agent", checkAgent],
  ["ipam_lock_timeout_seconds", checkIpamLockTimeout],
  ["device_type", checkDeviceType],
  ["link_form", checkLinkForm],
  ["dataplane_options", checkDataplaneType],
  ["readiness_gates", checkReadinessGates],
  ["policy_setup_timeout_seconds", checkPolicyTimeout],
  ["policy", checkPolicyType],
  [
    "ipam",
    (config, datastore) => {
      checkIpamType(config.ipam.type);
      if (datastore === "local") checkLocalPools(config.ipam.pools);
    },
  ],
];

/** Checks `agent*` (A§3.10). */
function checkAgent({ agent }: Pick<NetworkConfig, "agent">): void {
  if (!AGENT_MODES.some((mode) => mode === agent.mode)) {
    const values = AGENT_MODES.map((mode) => JSON.stringify(mode)).join(" (tortie-node serves this node) or ");
    throw wrong(`agent must be ${values} (the plugins do, as without the key), not ${JSON.stringify(agent.mode)}`);
  }
  const problem = problemOfAgentLimits(agent);
  if (problem !== undefined) throw wrong(problem);
}

/** Checks the longest wait for the node's lock (I§1.8). */
function checkIpamLockTimeout({ ipamLockTimeoutSeconds }: Pick<NetworkConfig, "ipamLockTimeoutSeconds">): void {
  const problem = problemOfIpamLockTimeout(ipamLockTimeoutSeconds);
  if (problem !== undefined) throw wrong(problem);
}

/** Checks the word (C§1.2, recording device-bogus). */
function checkDeviceType(config: Pick<NetworkConfig, "deviceType">): void {
  if (config.deviceType === "" || config.deviceType === "veth" || config.deviceType === "netkit") return;
  throw wrong(`unknown device_type ${JSON.stringify(config.deviceType)} in CNI config (supported: "veth", "netkit")`);
}

/** Checks the word (A§3.10). */
function checkLinkForm({ linkForm }: Pick<NetworkConfig, "linkForm">): void {
  if (linkForm === "" || linkForm === "routed" || linkForm === "endpoint") return;
  throw wrong(`link_form must be "routed" or "endpoint", not ${JSON.stringify(linkForm)}`);
}

/** Checks what the chain has made before us (A§3.8). */
export function checkChain({ chain, prevResult }: Pick<NetworkConfig, "chain" | "prevResult">): void {
  if (chain !== "" && chain !== "attach") throw wrong(`chain must be "attach", not ${JSON.stringify(chain)}`);
  if (chain === "attach" && prevResult === undefined) throw wrong('chain "attach" needs the prevResult of a plugin before this one');
}

/** Accepts the Linux dataplane only, which has no `type`. Calico has one by gRPC too (C§4.6). */
function checkDataplaneType(config: Pick<NetworkConfig, "dataplaneOptions">): void {
  const type = config.dataplaneOptions?.type;
  if (type === undefined || type === null) return;
  if (typeof type !== "string") throw wrong(`invalid dataplane type: dataplane_options.type must be a string, not ${JSON.stringify(type)}`);
  if (type !== "grpc") throw wrong(`invalid dataplane type: ${type}`);
  throw new TortieError("netconf-value", 'dataplane_options.type "grpc" is not supported: Tortie makes the links itself', {
    next: "remove the key dataplane_options.type, or keep Calico's plugin on this node",
  });
}

/** Refuses the plugin that needs a main plugin to remember its addresses, as Calico's does (C§2.5). */
function checkIpamType(type: string): void {
  if (type !== AZURE_IPAM) return;
  throw new TortieError(
    "netconf-value",
    `ipam.type "${AZURE_IPAM}" is not supported: it releases by address and not by container, so that addresses would leak`,
    { next: "name another IPAM plugin in ipam.type, or keep Calico's plugin on this node" },
  );
}

/** Checks that each gate is an absolute URL that can be fetched (C§2.2). */
function checkReadinessGates(config: Pick<NetworkConfig, "readinessGates">): void {
  for (const gate of config.readinessGates) {
    const url = URL.parse(gate);
    if (url === null || !["http:", "https:"].includes(url.protocol)) {
      throw wrong(`invalid URL set for ReadinessGates: ${JSON.stringify(gate)} (key readiness_gates)`);
    }
  }
}

/** Refuses before anything is written, which Calico does afterwards (design §8, recording policy-timeout--1). */
function checkPolicyTimeout(config: Pick<NetworkConfig, "policySetupTimeoutSeconds">): void {
  if (config.policySetupTimeoutSeconds >= 0) return;
  throw wrong(`invalid pod startup delay of ${config.policySetupTimeoutSeconds} (key policy_setup_timeout_seconds)`);
}

/** Plain containers have no annotations (C§2.6 step 1). */
export function checkFeaturesForPlainContainer(config: Pick<NetworkConfig, "featureControl">): void {
  if (!config.featureControl.ipAddrsNoIpam) return;
  throw wrong("requested feature is not supported for this runtime: ip_addrs_no_ipam (section feature_control)");
}

function wrong(message: string): TortieError {
  return new TortieError("netconf-value", message);
}
