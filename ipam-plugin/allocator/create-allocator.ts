/** Puts the operations together behind the interface. */
import type { Allocator, AllocatorServices } from "./allocator.ts";
import { assignIp } from "./assign-ip.ts";
import { autoAssign, giveBack } from "./auto-assign.ts";
import { type Context, View } from "./context.ts";
import { resolvePools } from "./pools.ts";
import { addressesByHandle, attributesOf } from "./queries.ts";
import { releaseAffinity } from "./release-affinity.ts";
import { releaseByHandle } from "./release-by-handle.ts";
import { releaseIps } from "./release-ips.ts";
import { sleep } from "./retry.ts";

/** What ADD and DEL of an ordinary pod do not need is loaded when it is called. */
export function createAllocator(services: AllocatorServices): Allocator {
  const context: Context = {
    datastore: services.datastore,
    clock: services.clock,
    random: services.random ?? Math.random,
    sleep: services.sleep ?? sleep,
    log: services.log ?? (() => {}),
  };
  const view = () => new View(services.datastore);
  return {
    view: (of) => new View(services.datastore, of),
    resolvePools: (entries, family, known = view()) => resolvePools(known, entries, family),
    autoAssign: (request) => autoAssign(context, request),
    giveBack: (result, handle, options = {}) => giveBack(context, options.view ?? view(), result, handle, options),
    assignIp: (request) => assignIp(context, request.view ?? view(), request),
    releaseByHandle: (handle, options = {}) => releaseByHandle(context, options.view ?? view(), { ...options, handle }),
    releaseIps: (options, signal) => releaseIps(context, view(), options, signal),
    async releaseAffinity(cidr, owner, { mustBeEmpty, signal }) {
      await releaseAffinity(context, view(), { owner, cidr, mustBeEmpty }, signal);
    },
    async releaseHostAffinities(owner, options) {
      const { releaseHostAffinities } = await import("./affinities.ts");
      await releaseHostAffinities(context, view(), owner, options);
    },
    async releasePoolAffinities(cidr, signal) {
      const { releasePoolAffinities } = await import("./affinities.ts");
      await releasePoolAffinities(context, view(), cidr, signal);
    },
    async releaseDeselected(owner, signal) {
      const { releaseAllDeselected } = await import("./deselected.ts");
      await releaseAllDeselected(context, view(), owner, signal);
    },
    async claimAffinity(cidr, owner, signal) {
      const { claimAffinity } = await import("./affinities.ts");
      return claimAffinity(context, view(), cidr, owner, signal);
    },
    async ensureBlock(request) {
      const { ensureBlock } = await import("./ensure-block.ts");
      return ensureBlock(context, request);
    },
    addressesByHandle: (handle) => addressesByHandle(context, handle),
    attributesOf: (address) => attributesOf(context, view(), address),
    async utilisation() {
      const { utilisation } = await import("./utilisation.ts");
      return utilisation(view());
    },
    async setOwnerAttributes(where, handle, updates, preconditions = {}, signal = undefined) {
      const { setOwnerAttributes } = await import("./owner-attributes.ts");
      return setOwnerAttributes(context, view(), { where, handle, updates, preconditions }, signal);
    },
    async upgradeHost(owner, signal) {
      const { upgradeHost } = await import("./affinities.ts");
      return upgradeHost(context, owner, signal);
    },
  };
}
