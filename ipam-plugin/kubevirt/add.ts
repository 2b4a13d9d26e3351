/**
 * Serves ADD of a pod that carries a virtual machine (I§1.9): the machine's addresses, which outlive its pods. The first pod takes them
 * from the pools, every later one takes them over; the target of a live migration stands by as alternate owner, without routes.
 */

import { type Address, type Family, formatAddress, hostPrefix } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { HandleExistsError, type HeldAddress } from "../allocator/types.ts";
import type { Assign, Assignment } from "../assign.ts";
import type { IpamCall } from "../call.ts";
import type { IpamHost } from "../host.ts";
import { withNodeLock } from "../node-lock.ts";
import { ownerAttributes, type Workload } from "../workload.ts";
import { type Machine, machineOf, persistsAddresses } from "./machine.ts";
import { type OwnerKind, takeOwnership } from "./owners.ts";

export interface MachineAssignment extends Assignment {
  /** false for the target of a migration: its host routes come when it takes over (C§2.3 S9). */
  readonly hasRoutes: boolean;
}

export interface MachineRequest {
  readonly workload: Workload;
  /** Addresses asked for by name. */
  readonly requested: readonly Address[];
}

/** Limits how often another pod of the same machine may be faster to its first addresses. */
const MOST_TRIES = 10;

/**
 * @returns `undefined` for an ordinary pod: one without a machine, or whose machine does not keep addresses
 * @throws TortieError `vm-unknown`, `vm-migration-disabled`, `vm-addresses-missing`, `handle-limit`, and what `assign` refuses
 */
export async function assignToMachine(
  request: MachineRequest,
  assign: Assign,
  call: IpamCall,
  host: IpamHost,
): Promise<MachineAssignment | undefined> {
  const { traits, virtualMachines } = host.datastore;
  if (!traits.hasVirtualMachines) return undefined;
  const { identity } = request.workload;
  const machine = await machineOf(virtualMachines, { namespace: identity.namespace, name: identity.pod }, call.request.network);
  if (machine === undefined) return undefined;
  if (await persistsAddresses(() => host.allocator.begin().configuration(), call.log))
    return new MachineAdd(request, machine, assign, call, host).run();
  if (!machine.isMigrationTarget) return undefined;
  throw new TortieError(
    "vm-migration-disabled",
    `live migration target pod is not allowed when KubeVirtVMAddressPersistence is disabled: ${identity.namespace}/${identity.pod}`,
  );
}

class MachineAdd {
  readonly #workload: Workload;
  readonly #requested: readonly Address[];
  readonly #machine: Machine;
  readonly #assign: Assign;
  readonly #call: IpamCall;
  readonly #host: IpamHost;

  constructor({ workload, requested }: MachineRequest, machine: Machine, assign: Assign, call: IpamCall, host: IpamHost) {
    this.#workload = { ...workload, handle: machine.handle, machineAttributes: machine.attributes };
    this.#requested = requested;
    this.#machine = machine;
    this.#assign = assign;
    this.#call = call;
    this.#host = host;
  }

  async run(): Promise<MachineAssignment> {
    await using undo = new AsyncDisposableStack();
    for (let tries = 1; tries <= MOST_TRIES; tries++) {
      const found = await this.#host.allocator.addressesByHandle(this.#machine.handle);
      const held = found ?? [];
      this.#refuseOthers(held);
      const added = await this.#takeMissing(held, found === undefined);
      if (added === undefined) continue;
      undo.defer(added.giveBack);
      // Another pod of the machine came between: what is ours since is among the held ones of the next look.
      if (added.isShared || !(await this.#takeOver(held, undo))) continue;
      const prefixes = [...held.map(({ address }) => hostPrefix(address)), ...added.prefixes];
      const done = undo.move();
      return {
        prefixes: prefixes.toSorted((a, b) => a.address.family - b.address.family),
        isShared: held.length > 0,
        hasRoutes: !this.#machine.isMigrationTarget,
        giveBack: () => done.disposeAsync(),
      };
    }
    throw new TortieError("datastore-contention", `handle ${this.#machine.handle} was changed by others ${MOST_TRIES} times in a row`);
  }

  /**
   * Takes what the machine lacks: all of it for its first pod, and later the family that a killed first ADD did not come to (design,
   * invariant 6). A target never gets an address that its source has not (recording vm-migration-v4).
   *
   * @returns `undefined` when another pod of the machine has made the handle meanwhile
   */
  async #takeMissing(held: readonly HeldAddress[], isFirst: boolean): Promise<Assignment | undefined> {
    const has = (family: Family) => held.some(({ address }) => address.family === family);
    const { handle, isMigrationTarget } = this.#machine;
    if (isMigrationTarget && held.length === 0) {
      throw new TortieError("vm-addresses-missing", `migration target pod but no IP allocated to VM handle ${handle}`);
    }
    const named = this.#requested.filter(({ family }) => !has(family));
    const { config } = this.#call;
    const { ipam } = config;
    const families = { assignIpv4: ipam.assignIpv4 && !has(4), assignIpv6: ipam.assignIpv6 && !has(6) };
    const isComplete = this.#requested.length > 0 ? named.length === 0 : !families.assignIpv4 && !families.assignIpv6;
    if (isMigrationTarget || isComplete) return { prefixes: [], isShared: false, giveBack: async () => {} };
    try {
      return await this.#assign(this.#workload, named, { ...config, ipam: { ...ipam, ...families } }, isFirst);
    } catch (error) {
      if (error instanceof HandleExistsError) return undefined;
      throw error;
    }
  }

  /** @returns false when the machine has lost one of them meanwhile: the ADD that took it has failed, and gave it back */
  async #takeOver(held: readonly HeldAddress[], undo: AsyncDisposableStack): Promise<boolean> {
    if (held.length === 0) return true;
    const { allocator, clock } = this.#host;
    const kind: OwnerKind = this.#machine.isMigrationTarget ? "alternate" : "active";
    const attributes = ownerAttributes(this.#workload, clock.nowNs());
    return withNodeLock(this.#call, this.#host, async (signal) => {
      for (const address of held) {
        const restore = await takeOwnership(allocator, address, this.#machine.handle, kind, attributes, signal);
        if (restore === undefined) return false;
        undo.defer(restore);
      }
      return true;
    });
  }

  /** Refuses to give a machine another address than its own, which must not be silently overlooked (Calico: recording vm-ip). */
  #refuseOthers(held: readonly HeldAddress[]): void {
    const { handle, isMigrationTarget } = this.#machine;
    for (const address of this.#requested) {
      const same = held.filter((other) => other.address.family === address.family);
      if (same.some((other) => other.address.value === address.value)) continue;
      if (same.length === 0 && !(isMigrationTarget && held.length > 0)) continue;
      const kept = held.map((other) => formatAddress(other.address)).join(", ");
      throw new TortieError(
        "handle-limit",
        `handle ${handle} already has IP(s) allocated, cannot assign additional IP ${formatAddress(address)}: the virtual machine keeps ${kept}`,
      );
    }
  }
}
