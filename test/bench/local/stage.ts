/** Where everything of the local store is measured: network namespaces for pods, and the contenders on one store and one pool. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BIN_DIR } from "../../support/node.ts";
import type { CallOf } from "../compare.ts";
import type { Contender } from "../contender.ts";
import { type Resident, RUN_DIRECTORY, startResident } from "../resident.ts";
import { linkWholeProgram } from "../whole-program.ts";

export const BURST = 60;
const NODE = "bench-node";

export interface Stage extends AsyncDisposable {
  /** `ptp` with `host-local`, of Debian. */
  readonly peer: Contender;
  readonly call: CallOf;
  /** The plugin with the agent, which is needed. */
  withAgent(resident?: Resident): Contender;
  /** The plugin where no agent is: as it was built. */
  readonly direct: Contender;
  /** The TypeScript program in its place, with the agent and where there is none. */
  readonly wholeWithAgent: Contender;
  readonly wholeDirect: Contender;
  /** An agent that has never served a call. */
  startAgent(): Promise<Resident>;
}

export async function setUpStage(): Promise<Stage> {
  const directory = mkdtempSync(join(tmpdir(), "tortie-bench-"));
  const whole = linkWholeProgram(BIN_DIR);
  const namespaces = Array.from({ length: BURST }, (_, index) => `bench-${process.pid}-${index}`);
  for (const name of namespaces) execFileSync("ip", ["netns", "add", name]);
  const plugin = (name: string, bin: string, agent: "require" | "off"): Contender => ({
    name,
    executable: join(bin, "tortie"),
    path: bin,
    netconf: JSON.stringify({
      cniVersion: "1.0.0",
      name: "bench",
      type: "tortie",
      agent,
      datastore_type: "local",
      datastore_path: join(directory, "bench.db"),
      ipam_lock_file: join(directory, "ipam.lock"),
      nodename: NODE,
      ipam: { type: "tortie-ipam", pools: [{ cidr: "10.98.0.0/16" }] },
    }),
  });
  const peer = {
    cniVersion: "1.0.0",
    name: "peer",
    type: "ptp",
    ipam: { type: "host-local", subnet: "10.97.0.0/16", dataDir: join(directory, "host-local") },
  };
  return {
    peer: { name: "ptp + host-local", executable: "/usr/lib/cni/ptp", path: "/usr/lib/cni", netconf: JSON.stringify(peer) },
    call: (command, pod, round) => ({ command, containerId: `${round}-${pod}`, netns: `/run/netns/${namespaces[pod]}` }),
    withAgent: (resident) => ({ ...plugin("with the agent", BIN_DIR, "require"), ...(resident === undefined ? {} : { resident }) }),
    direct: plugin("without agent", BIN_DIR, "off"),
    wholeWithAgent: plugin("with the agent, the TypeScript program alone", whole.directory, "require"),
    wholeDirect: plugin("without agent, the TypeScript program alone", whole.directory, "off"),
    async startAgent() {
      rmSync(RUN_DIRECTORY, { recursive: true, force: true });
      const resident = await startResident(RUN_DIRECTORY, ["--node-name", NODE]);
      return {
        ...resident,
        async [Symbol.asyncDispose]() {
          await resident[Symbol.asyncDispose]();
          // A node that has never had an agent: what one leaves there makes a plugin look for it.
          rmSync(RUN_DIRECTORY, { recursive: true, force: true });
        },
      };
    },
    async [Symbol.asyncDispose]() {
      for (const name of namespaces) execFileSync("ip", ["netns", "del", name]);
      whole[Symbol.dispose]();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/**
 * The node's rules, with the handles that a replacement changes. Contenders that replace each other's rules measure that instead of
 * themselves: it is 9 ms of a call, most of it in the kernel.
 */
export function rulesOfNode(): string {
  return execFileSync("nft", ["-a", "list", "ruleset"], { encoding: "utf8" });
}
