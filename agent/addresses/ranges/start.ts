import { readHostFacts } from "../../../dataplane/linux/host-facts.ts";
import { type HostScopeFiles, hostScopeFiles } from "../../../ipam-plugin/host-scope/files.ts";
import { ownerKey, readGrant } from "../../../ipam-plugin/host-scope/grant-directory.ts";
import type { GrantFiles } from "../../../ipam-plugin/host-scope/grant-files.ts";
import type { HostScope } from "../../../ipam-plugin/host-scope/host-scope.ts";
import type { NodeRecord } from "../../../ipam-plugin/host-scope/node-record.ts";
import { type Address, formatAddress, parseAddress } from "../../../lib/addresses/address.ts";
import type { AttachmentId } from "../../../lib/cni/attachment-id.ts";
import type { AgentLog } from "../../../lib/resident/agent-log.ts";
import type { CheckResult } from "../../../lib/resident/health.ts";
import { SECOND_MS } from "../../../lib/resident/options.ts";
import { once, SYSTEM_CLOCK } from "../../../lib/system/waiting.ts";
import type { HostParts } from "../../../main-plugin/host.ts";
import type { EndpointManager } from "../../endpoints/manager.ts";
import { regrant } from "../../endpoints/restore.ts";
import { type AgentHealth, addressFinding } from "../../observe/health.ts";
import type { AgentContext } from "../../start/context.ts";
import { NodeCidr } from "./node-cidr.ts";
import { nodeObjects } from "./node-object.ts";
import { nodeCidrOptions } from "./options.ts";

/** What gives addresses to clients of the API. */
export interface ServedRanges {
  readonly hostScope: () => HostScope;
  readonly record: () => NodeRecord | undefined;
  /** The endpoint that uses an address: its grant cannot be released over the API. */
  readonly endpointOf: (address: Address) => number | undefined;
}

export interface NodeRanges {
  readonly nodeCidr: NodeCidr;
  /** Ends when the ranges of a node that lives by them are known; at once for others. */
  readonly rangesKnown: () => Promise<void>;
  /** For the nodes that the flows of the main plugin get. */
  readonly parts: Required<Pick<HostParts, "hostScope" | "knownRanges" | "nodeRecord">>;
  /** For the API; `undefined` where the node's addresses come from blocks. */
  readonly ipam: ServedRanges | undefined;
  /** Says who holds an address of the range, and gives the proof of it. */
  ownerOf(address: string): { readonly owner: string; readonly token: string } | undefined;
  /** Makes a grant the attachment's, without a time limit. @returns false when the token is no longer the address's */
  confirm(address: string, token: string, attachment: AttachmentId, pod: string | undefined): Promise<boolean>;
  /** Gives an address back, if it still has this token. */
  release(address: string, token: string): Promise<void>;
  /** Learns which endpoint has an address, and grants the addresses of restored endpoints again whose files are lost. */
  join(endpoints: EndpointManager): Promise<void>;
  /** Begins to find out about the ranges where the node's mode, or an earlier start, says that they are needed. */
  start(): void;
}

const EXPIRY = "ipam-expiry";
const EXPIRY_INTERVAL_MS = 30_000;

/** @throws TortieError `option-invalid` */
export function startRanges({ options, node, bootId, run, host, cluster, controllers, health, log, giveUp }: AgentContext): NodeRanges {
  const files = hostScopeFiles(run.path);
  const isHostScopeNode = options.ipam === "host-scope";
  const nodeWaitMs = options["node-wait"] * SECOND_MS;
  let endpoints: Pick<EndpointManager, "withAddress"> | undefined;
  const endpointOf = (address: Address) => endpoints?.withAddress(address.family, formatAddress(address))[0]?.id;
  // The watch begins with the first use, so that a node whose addresses come from blocks has no such watch.
  const nodeCidr = new NodeCidr({
    options: nodeCidrOptions(options),
    node,
    bootId,
    files,
    strategy: options["ipam-strategy"],
    cooldownMs: options["ipam-cooldown"] * SECOND_MS,
    isHostScopeNode,
    annotates: options["annotate-k8s-node"],
    cluster: cluster && (() => nodeObjects(cluster.connection, cluster.informers, node)),
    readHost: () => readHostFacts(host),
    controllers,
    clock: SYSTEM_CLOCK,
    log,
    giveUp: options["node-wait-fatal"] ? { afterMs: nodeWaitMs, end: giveUp } : undefined,
  });
  let isStarted = false;
  const startOnce = once(() => {
    isStarted = true;
    nodeCidr.start();
    const run = async () => void (await nodeCidr.hostScope.expire((address) => endpointOf(address) !== undefined));
    controllers.update(EXPIRY, { run, intervalMs: EXPIRY_INTERVAL_MS, quiet: true });
  });
  health.health.add({ name: "ranges", decides: "ready", look: () => judge(nodeCidr, isStarted, nodeWaitMs) });
  return {
    nodeCidr,
    rangesKnown: async () => {
      if (isHostScopeNode) await nodeCidr.untilKnown();
    },
    ipam: isHostScopeNode ? { hostScope: () => nodeCidr.hostScope, record: () => nodeCidr.record, endpointOf } : undefined,
    ...rangeGrants(nodeCidr, files),
    parts: {
      hostScope() {
        startOnce();
        return nodeCidr.hostScope;
      },
      knownRanges: () => nodeCidr.hostScope.knownRanges(),
      nodeRecord: () => files.nodeRecord,
    },
    join(manager) {
      endpoints = manager;
      return regrantRestored(manager, nodeCidr.hostScope.files, health.health, log);
    },
    start() {
      if (isHostScopeNode || nodeCidr.hasRecord) startOnce();
    },
  };
}

/** Does what a client of the API, or a registered endpoint, may do with a grant that it has a token of. */
function rangeGrants({ hostScope }: NodeCidr, files: HostScopeFiles): Pick<NodeRanges, "ownerOf" | "confirm" | "release"> {
  return {
    ownerOf(text) {
      const grant = readGrant(files, text);
      return grant && { owner: ownerKey(grant.owner), token: grant.token };
    },
    async confirm(text, token, { network, containerId, ifname }, pod) {
      const address = parseAddress(text);
      const owner = { kind: "attachment", network, containerId, ifname, ...(pod === undefined ? {} : { pod }) } as const;
      return address !== undefined && (await hostScope.files.confirm(address, token, owner));
    },
    async release(text, token) {
      const address = parseAddress(text);
      if (address !== undefined) await hostScope.files.release([address], (grant) => grant.token === token);
    },
  };
}

async function regrantRestored(
  manager: EndpointManager,
  files: GrantFiles,
  health: Pick<AgentHealth["health"], "find">,
  log: Pick<AgentLog, "info" | "error">,
): Promise<void> {
  const conflicts = new Map<number, string[]>();
  await regrant({
    records: manager.list(),
    files,
    nowMs: () => SYSTEM_CLOCK.date().getTime(),
    onRegranted: ({ id }, address) => log.info(`restored: ${address} of endpoint ${id} had lost its grant and has it again`),
    onConflict({ id }, address, problem) {
      const conflict = `address-conflict: ${address} of endpoint ${id}: ${problem}`;
      log.error(conflict);
      manager.get(id)?.note("Warning", "Other", conflict);
      conflicts.getOrInsert(id, []).push(conflict);
    },
  });
  for (const [id, found] of conflicts) health.find(addressFinding(id), found.join("; "));
  manager.onChange((event, { id }) => {
    if (event === "gone" && conflicts.delete(id)) health.find(addressFinding(id), undefined);
  });
}

/** Accepts the range of an earlier start of this boot while the node object is waited for, as long as `--node-wait` allows. */
function judge(nodeCidr: NodeCidr, isStarted: boolean, nodeWaitMs: number): CheckResult {
  if (!isStarted) return { state: "disabled", message: "addresses come from blocks of the pools" };
  const { waiting, record } = nodeCidr;
  const next = "give the node a range: spec.podCIDRs of its Node object, or --ipv4-range and --ipv6-range";
  if (waiting === undefined) {
    const [shadowing] = nodeCidr.shadowing;
    return shadowing === undefined
      ? { state: "ok", message: "the ranges of this node are known" }
      : {
          state: "warning",
          message: `range-shadowed: ${shadowing}`,
          next: "see whether that route is wanted: pods of the range are behind it for other hosts",
        };
  }
  const waitedMs = SYSTEM_CLOCK.now() - waiting.sinceMs;
  const message = `waiting for k8s node information (${waiting.what}) for ${Math.floor(waitedMs / SECOND_MS)} s: ${waiting.cause}`;
  return { state: record === undefined || waitedMs >= nodeWaitMs ? "failure" : "warning", message, next };
}
