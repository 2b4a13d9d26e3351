/** Host scope in the agent: who finds out about the node's ranges, and what gives their addresses (A§1, A§4). */
import { readHostFacts } from "../dataplane/linux/host-facts.ts";
import type { HostSockets } from "../dataplane/netlink/host-sockets.ts";
import { hostScopeFiles } from "../ipam-plugin/host-scope/files.ts";
import { ownerKey } from "../ipam-plugin/host-scope/grant.ts";
import { readGrant } from "../ipam-plugin/host-scope/grant-directory.ts";
import type { GrantFiles } from "../ipam-plugin/host-scope/grant-files.ts";
import { type Address, parseAddress } from "../lib/addresses/address.ts";
import type { AgentLog } from "../lib/resident/agent-log.ts";
import type { Controllers } from "../lib/resident/controllers.ts";
import type { Check, CheckResult } from "../lib/resident/health.ts";
import { SECOND_MS } from "../lib/resident/option-entry.ts";
import { SYSTEM_CLOCK } from "../lib/system/clock.ts";
import type { NodeParts } from "../main-plugin/node.ts";
import type { AgentCluster } from "./compose-cluster.ts";
import { addressFinding } from "./compose-comparison.ts";
import type { AgentHealth } from "./compose-health.ts";
import type { EndpointManager } from "./endpoints/manager.ts";
import type { Attachment } from "./endpoints/record/endpoint-record.ts";
import { IpamService } from "./ipam-service/ipam-service.ts";
import { nodeObjects } from "./node-cidr/cluster.ts";
import { NodeCidr } from "./node-cidr/node-cidr.ts";
import { nodeCidrOptions } from "./node-cidr/options.ts";
import type { AgentOptions } from "./process/option-table.ts";
import { regrant } from "./restore/regrant.ts";

export interface HostScopeInput {
  readonly options: AgentOptions;
  readonly node: string;
  readonly host: HostSockets;
  readonly bootId: string;
  readonly runDirectory: string;
  readonly cluster: AgentCluster | undefined;
  readonly controllers: Controllers;
  /** The endpoint that has an address. */
  readonly endpointOf: (address: Address) => number | undefined;
  readonly log: AgentLog;
  /** Ends the process: `--node-wait-fatal`. */
  readonly giveUp: (message: string) => void;
}

export interface HostScopeOfAgent {
  readonly nodeCidr: NodeCidr;
  /** Whether there is a range to give addresses of (A§8.3). */
  readonly check: Check;
  /** Ends when the ranges of a node that lives by them are known; at once for others. */
  readonly rangesKnown: () => Promise<void>;
  /** For the nodes that the flows of the main plugin get. */
  readonly parts: Required<Pick<NodeParts, "hostScope" | "knownRanges" | "nodeRecord">>;
  /** For the API; `undefined` where the node's addresses come from blocks. */
  readonly ipam: IpamService | undefined;
  /** Who holds an address of the range, and the proof of it. */
  ownerOf(address: string): { readonly owner: string; readonly token: string } | undefined;
  /** Makes a grant the attachment's for good, if it still has this token. */
  confirm(address: string, token: string, attachment: Attachment, pod: string | undefined): Promise<boolean>;
  /** Gives an address back, if it still has this token. */
  release(address: string, token: string): Promise<void>;
  /** Grants the addresses of restored endpoints again whose files are lost. */
  regrant(manager: EndpointManager, health: Pick<AgentHealth["health"], "find">): Promise<void>;
  /** Begins to find out about the ranges where the node's mode, or an earlier start, says that they are needed. */
  start(): void;
}

const EXPIRY = "ipam-expiry";
const EXPIRY_INTERVAL_MS = 30_000;

/** @throws TortieError `option-invalid` */
export function hostScopeOfAgent(input: HostScopeInput): HostScopeOfAgent {
  const { options, node, bootId, cluster, controllers, log } = input;
  const files = hostScopeFiles(input.runDirectory);
  const isHostScopeNode = options.ipam === "host-scope";
  // The watch begins with the first use: a node whose addresses come from blocks has none of it.
  const nodeCidr = new NodeCidr({
    options: nodeCidrOptions(options),
    node,
    bootId,
    files,
    strategy: options["ipam-strategy"],
    cooldownMs: options["ipam-cooldown"] * SECOND_MS,
    isHostScopeNode,
    annotates: options["annotate-k8s-node"],
    cluster: cluster === undefined ? undefined : () => nodeObjects(cluster.connection, cluster.informers, node),
    readHost: () => readHostFacts(input.host),
    controllers,
    clock: SYSTEM_CLOCK,
    log,
    ...(options["node-wait-fatal"] ? { giveUp: { afterMs: options["node-wait"] * SECOND_MS, end: input.giveUp } } : {}),
  });
  const ipam = new IpamService({ hostScope: () => nodeCidr.hostScope, record: () => nodeCidr.record, endpointOf: input.endpointOf });
  const start = () => {
    nodeCidr.start();
    controllers.update(EXPIRY, {
      async run() {
        await nodeCidr.hostScope.expire((address) => input.endpointOf(address) !== undefined);
      },
      intervalMs: EXPIRY_INTERVAL_MS,
      quiet: true,
    });
  };
  let isStarted = false;
  const startOnce = () => {
    if (!isStarted) start();
    isStarted = true;
  };
  return {
    nodeCidr,
    check: { name: "ranges", decides: "ready", look: () => judge(nodeCidr, isStarted, options["node-wait"] * SECOND_MS) },
    rangesKnown: async () => {
      if (isHostScopeNode) await nodeCidr.untilKnown();
    },
    ipam: isHostScopeNode ? ipam : undefined,
    ownerOf(text) {
      const grant = readGrant(files, text);
      return grant === undefined ? undefined : { owner: ownerKey(grant.owner), token: grant.token };
    },
    async confirm(text, token, { network, containerId, ifname }, pod) {
      const address = parseAddress(text);
      const owner = { kind: "attachment", network, containerId, interfaceName: ifname, ...(pod === undefined ? {} : { pod }) } as const;
      return address !== undefined && (await nodeCidr.hostScope.files.confirm(address, token, owner));
    },
    async release(text, token) {
      const address = parseAddress(text);
      if (address !== undefined) await nodeCidr.hostScope.files.release([address], (grant) => grant.token === token);
    },
    parts: {
      hostScope() {
        startOnce();
        return nodeCidr.hostScope;
      },
      knownRanges: () => nodeCidr.hostScope.knownRanges(),
      nodeRecord: () => files.nodeRecord,
    },
    regrant: (manager, health) => regrantRestored(manager, nodeCidr.hostScope.files, health, log),
    start() {
      if (isHostScopeNode || nodeCidr.hasRecord) startOnce();
    },
  };
}

async function regrantRestored(
  manager: EndpointManager,
  files: GrantFiles,
  health: Pick<AgentHealth["health"], "find">,
  log: Pick<AgentLog, "info" | "error">,
): Promise<void> {
  const conflicts = new Map<number, readonly string[]>();
  await regrant({
    records: manager.list(),
    files,
    nowMs: () => SYSTEM_CLOCK.date().getTime(),
    onRegranted: ({ id }, address) => log.info(`restored: ${address} of endpoint ${id} had lost its grant and has it again`),
    onConflict({ id }, address, problem) {
      const conflict = `address-conflict: ${address} of endpoint ${id}: ${problem}`;
      log.error(conflict);
      manager.get(id)?.note("Warning", "Other", conflict);
      conflicts.set(id, [...(conflicts.get(id) ?? []), conflict]);
    },
  });
  for (const [id, found] of conflicts) health.find(addressFinding(id), found.join("; "));
  manager.onChange((event, { id }) => {
    if (event === "gone" && conflicts.delete(id)) health.find(addressFinding(id), undefined);
  });
}

/** The range of an earlier start of this boot does while the node object is waited for, as long as `--node-wait` allows. */
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
