/** Starts the take-over of what is attached here and has no record: once before policy is opened, and then whenever links come or go. */
import { labelHostEnd, listHostEnds, namedSandboxes } from "../../dataplane/linux/host-ends.ts";
import { listenToKernel } from "../../dataplane/netlink/listen.ts";
import { NETLINK_ROUTE, RTMGRP_LINK } from "../../dataplane/netlink/socket.ts";
import { fileKey } from "../../lib/cni/attachment-id.ts";
import { chooseDatastore } from "../../lib/config/datastore-choice.ts";
import { HOST_SCOPE, isCalicoIpam } from "../../lib/config/ipam-section.ts";
import { nodeName } from "../../lib/config/node-name.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { isThere } from "../../lib/system/files.ts";
import { inTime } from "../../lib/system/waiting.ts";
import { guardedPrefixes } from "../../lib/workload/names.ts";
import type { Networks } from "../attachments/start.ts";
import type { EndpointManager } from "../endpoints/manager.ts";
import type { AgentPolicy } from "../policy/start.ts";
import type { AgentContext } from "../start/context.ts";
import { type NodeList, netDirOf, nodeLists } from "../start/node-lists.ts";
import { readGrants } from "./grants.ts";
import { judgeAttachments } from "./health.ts";
import { recordOf } from "./record.ts";
import { TakeOver } from "./take-over.ts";

const NAME = "take-over";
const LOOK_EVERY_MS = 60_000;
/** How long the stores may take to say who has the addresses of host ends without alias. */
const STORES_MS = 30_000;
/** Joins the news of a burst. */
const PAUSE_MS = 200;
/** What does not fit is lost, and seen with the look of the minute. */
const LINK_NEWS = { protocol: NETLINK_ROUTE, groups: RTMGRP_LINK, endsWhenFull: false };
/** Directory in which runtimes keep results (libcni). */
const CACHE_DIR = "/var/lib/cni";

interface TakeOverContext {
  readonly manager: EndpointManager;
  readonly networks: Pick<Networks, "hosts" | "locks" | "queue">;
  readonly policy: Pick<AgentPolicy, "found" | "view">;
}

export interface StartedTakeOver extends AsyncDisposable {
  /** Resolves when every host end has been looked at with all that could be asked about it. */
  readonly known: Promise<void>;
  /** Whether a list leaves the network to the plugins. */
  isLeftToPlugins(network: string): boolean;
}

/** Returns when everything is an endpoint that this host alone can prove. */
export async function startTakeOver(context: AgentContext, { manager, networks, policy }: TakeOverContext): Promise<StartedTakeOver> {
  const { options, env, host, cluster, controllers, health, log } = context;
  const { hosts, locks, queue } = networks;
  const ipamType = options.ipam === "host-scope" ? { ipamType: HOST_SCOPE } : {};
  const netDir = netDirOf(env);
  let lists = nodeLists(netDir);
  const takeOver = new TakeOver({
    hostEnds: () => listHostEnds(host, guardedPrefixes(env.FELIX_INTERFACEPREFIX)),
    lists: () => lists,
    pods: cluster?.pods,
    sandboxes: () => namedSandboxes(host),
    endpoints: manager,
    tryHold: (attachment) => (queue.find(fileKey(attachment)) === undefined ? locks.tryTake(fileKey(attachment)) : undefined),
    label: (end, alias) => labelHostEnd(host, end, alias),
    makeRecord: (proven) => recordOf(proven, { hosts, env, cacheDir: CACHE_DIR, ...ipamType }),
    onFound: (ends) => policy.found(ends),
    log,
  });
  health.health.add({
    name: "attachments",
    decides: "shown",
    look: () => judgeAttachments({ lists, left: takeOver.left, isClosed: (name) => policy.view()?.isClosed(name) === true }),
  });
  const ending = new AbortController();
  let running: Promise<void> = Promise.resolve();
  const lookAtAll = async () => {
    lists = nodeLists(netDir);
    if (await takeOver.look(undefined)) await takeOver.look(await grantsOf(lists, hosts));
  };
  // One after the other: what the first one has proven needs no store any more.
  const whole = () => {
    const looking = running.then(lookAtAll);
    running = looking.catch(() => undefined);
    return looking;
  };
  const lacksProof = await takeOver.look(undefined);
  const known = lacksProof ? untilProven(whole, cluster, ending.signal, log) : Promise.resolve();
  controllers.update(NAME, { run: whole, intervalMs: LOOK_EVERY_MS, quiet: true });
  // Adds the UIDs of pods.
  cluster?.pods.untilSynced(ending.signal).then(
    () => controllers.trigger(NAME),
    () => undefined,
  );
  // The agent's own calls tell of their links.
  const news = await watchNews(() => lists.some(({ isOfAgent }) => !isOfAgent) && controllers.trigger(NAME), log);
  return {
    known,
    isLeftToPlugins: (network) => lists.some(({ config, isOfAgent }) => config.name === network && !isOfAgent),
    async [Symbol.asyncDispose]() {
      ending.abort(new Error("the agent ends"));
      news?.[Symbol.dispose]();
      await controllers.remove(NAME);
    },
  };
}

/** Waits for the pods, as policy does, and for the stores a while: what cannot be proven then is looked at again each minute. */
async function untilProven(
  whole: () => Promise<void>,
  cluster: AgentContext["cluster"],
  signal: AbortSignal,
  log: AgentContext["log"],
): Promise<void> {
  try {
    await cluster?.pods.untilSynced(signal);
    await inTime(STORES_MS, new Error(`the stores have not answered for ${STORES_MS / 1000} s`), whole());
  } catch (error) {
    log.error(`not every pod that was here before the agent is identified: ${messageOf(error)}`);
  }
}

/** Opens each store of this node's networks once, and no local one that is not there. */
async function grantsOf(lists: readonly NodeList[], hosts: Networks["hosts"]): ReturnType<typeof readGrants> {
  const own = lists.filter(({ config }) => isCalicoIpam(config.ipam.type));
  const there = own.filter(({ config }) => chooseDatastore(config, {}) !== "local" || isThere(config.datastorePath));
  const opened = await Promise.all(
    there.map(async ({ config }) => ({ datastore: (await hosts.of(config, {}).ipam()).datastore, node: nodeName(config) })),
  );
  return readGrants(opened.filter(({ datastore }, at) => opened.findIndex((other) => other.datastore === datastore) === at));
}

/** Without the news the look of each minute remains. */
async function watchNews(onNews: () => unknown, log: AgentContext["log"]): Promise<Disposable | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const later = () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      onNews();
    }, PAUSE_MS);
  };
  const onEnd = (error: unknown) => log.error(`links are looked at each minute only: ${messageOf(error)}`);
  try {
    const news = await listenToKernel(LINK_NEWS, () => ({ onData: later, onEnd }));
    return {
      [Symbol.dispose]() {
        clearTimeout(timer);
        news[Symbol.dispose]();
      },
    };
  } catch (error) {
    onEnd(error);
    return undefined;
  }
}
