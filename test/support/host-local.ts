/** Directories of the real host-local plugin, as it leaves them on a node. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { addressesOf } from "./cni-result.ts";
import { REFERENCE_PLUGINS_DIR } from "./node.ts";

const PLUGIN = join(REFERENCE_PLUGINS_DIR, "host-local");

/** CIDRs that host-local gives addresses from, one of each family at most. */
export interface HostLocalNetwork {
  /** Parent of the networks' directories. */
  readonly dataDir: string;
  readonly name: string;
  readonly cidrs: readonly string[];
}

/** The directory of the network. */
export function directoryOf({ dataDir, name }: HostLocalNetwork): string {
  return join(dataDir, name);
}

/** Arguments to run host-local with. */
export function hostLocalCall(network: HostLocalNetwork, command: "ADD" | "DEL", container: string) {
  const ipam = { type: "host-local", dataDir: network.dataDir, ranges: network.cidrs.map((subnet) => [{ subnet }]) };
  return {
    command: PLUGIN,
    input: JSON.stringify({ cniVersion: "1.0.0", name: network.name, type: "ptp", ipam }),
    env: {
      CNI_COMMAND: command,
      CNI_CONTAINERID: container,
      CNI_NETNS: "/run/netns/x",
      CNI_IFNAME: "eth0",
      CNI_PATH: REFERENCE_PLUGINS_DIR,
    },
  };
}

/** The addresses that host-local gives a container, without prefix lengths. @throws Error with what it printed */
export function addToHostLocal(network: HostLocalNetwork, container: string): readonly string[] {
  const { command, input, env } = hostLocalCall(network, "ADD", container);
  const run = spawnSync(command, [], { input, env, encoding: "utf8" });
  if (run.status !== 0) throw new Error(`host-local: ${run.stdout}${run.stderr}`);
  return addressesOf(JSON.parse(run.stdout));
}
