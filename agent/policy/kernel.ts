/**
 * Keeps the packet filter of this node, and the file that says so to plugins: whatever is judged in the kernel, they know of. Opens the node
 * again when policy is turned off.
 */
import type { HostSockets } from "../../dataplane/netlink/host-sockets.ts";
import { isKnownEndpoint } from "../../dataplane/nftables/policy/known-endpoints.ts";
import { PolicyTable } from "../../dataplane/nftables/policy/policy-table.ts";
import type { PacketPolicy, PolicyChange } from "../../dataplane/packet-policy.ts";
import { removePolicyFile, writePolicyFile } from "../../handover/policy-file.ts";
import type { RunDirectory } from "../../handover/run-directory.ts";
import { prefixesOfLinks } from "../../lib/workload/names.ts";

export interface KernelParts {
  readonly host: HostSockets;
  readonly run: Pick<RunDirectory, "policyFile">;
  readonly logGroup: number;
  /** How the host ends begin that are judged from the beginning. */
  readonly prefixes: readonly string[];
}

export class KernelPolicy {
  readonly #parts: KernelParts;
  #prefixes: readonly string[];
  #table: PolicyTable;

  constructor(parts: KernelParts) {
    this.#parts = parts;
    this.#prefixes = parts.prefixes;
    this.#table = this.#tableOf();
  }

  /**
   * Judges the host ends that begin like this one, too: a runtime may have another list of prefixes than the agent.
   * @returns whether the table must be compared for it
   */
  judge(hostInterface: string): boolean {
    const others = prefixesOfLinks([hostInterface], this.#prefixes);
    if (others.length === 0) return false;
    this.#prefixes = [...this.#prefixes, ...others];
    this.#table = this.#tableOf();
    return true;
  }

  replace(state: PacketPolicy): Promise<readonly string[]> {
    // Comes first: from the first rule on, a pod that nobody opens is closed.
    writePolicyFile(this.#parts.run, { prefixes: this.#prefixes });
    return this.#table.replace(state);
  }

  apply(change: PolicyChange): Promise<void> {
    return this.#table.apply(change);
  }

  /** Answers what changes nothing. */
  get table(): Pick<PolicyTable, "inspect" | "counters" | "judged"> {
    return this.#table;
  }

  /** Says whether the kernel judges this host end by a policy of its own, or lets it pass; a host end that it does not know is closed. */
  knows(hostInterface: string): boolean {
    return isKnownEndpoint(this.#parts.host, hostInterface);
  }

  #tableOf(): PolicyTable {
    const { host, logGroup } = this.#parts;
    return new PolicyTable(host, { prefixes: this.#prefixes, logGroup });
  }
}

/**
 * Takes policy out of the kernel, so that every pod reaches what routes allow, and takes the file away that says that it is on. Succeeds if
 * there is none.
 * @throws TortieError `nat-failed`
 */
export async function openNode(host: HostSockets, run: Pick<RunDirectory, "policyFile">): Promise<void> {
  await new PolicyTable(host, { prefixes: [], logGroup: 0 }).remove();
  removePolicyFile(run);
}
