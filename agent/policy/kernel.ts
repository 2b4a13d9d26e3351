/** Keeps the packet filter of this node, and opens the node again when policy is turned off. */
import type { HostSockets } from "../../dataplane/netlink/host-sockets.ts";
import { isKnownEndpoint } from "../../dataplane/nftables/policy/known-endpoints.ts";
import { PolicyTable } from "../../dataplane/nftables/policy/policy-table.ts";
import type { PacketPolicy, PolicyChange } from "../../dataplane/packet-policy.ts";
import { prefixesOfLinks } from "../../lib/workload/names.ts";

export interface KernelParts {
  readonly host: HostSockets;
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

/** Removes policy from the kernel, so that every pod reaches what routes allow. Succeeds without a table. @throws TortieError `nat-failed` */
export async function openNode(host: HostSockets): Promise<void> {
  await new PolicyTable(host, { prefixes: [], logGroup: 0 }).remove();
}
