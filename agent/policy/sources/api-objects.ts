/**
 * Reads from the watches of an API server what policy is about: policies, namespaces, pods by their metadata alone, and what proves their
 * addresses: the allocator's blocks, or the nodes' ranges. Little of each is kept, since every node keeps those of the whole cluster.
 */
import {
  type Address,
  formatAddress,
  formatPrefix,
  maskPrefix,
  type Prefix,
  parseAddress,
  parsePrefix,
} from "../../../lib/addresses/address.ts";
import type { WatchedBlock } from "../../../lib/datastore/calico/block.ts";
import type { ApiGroup } from "../../../lib/datastore/calico/codec.ts";
import { messageOf } from "../../../lib/errors/errors.ts";
import { type Fields, isObject, section, textList } from "../../../lib/json/decode.ts";
import { metadataOf } from "../../../lib/kubernetes/objects.ts";
import type { Informers } from "../../../lib/kubernetes/watch/informers.ts";
import type { CacheChange, ResourceCache } from "../../../lib/kubernetes/watch/resource-cache.ts";
import { Claimed } from "../../../lib/system/claimed.ts";
import { type BackOff, type Clock, pauseAfter } from "../../../lib/system/waiting.ts";
import { listedAddresses, POD_IP, POD_IPS } from "../../../lib/workload/annotations/pod-addresses.ts";
import type { Labels, PolicyObject } from "../../../policy/model.ts";
import type { ClaimingPod, HeldBlock } from "./claims.ts";
import type { SourcePart, Telling } from "./sources.ts";

type Watching = Pick<Informers, "watch">;

/** How often one watch is requested again: the longest time for which dead connections of all stay unnoticed. */
export const HEARTBEAT_SECONDS = 30;

/** Where the rights stand that these watches need. */
const MANIFEST = "manifests/node/rbac.yaml";

/** Says what is missing of a watch; `undefined`: it shows what is so. */
export function gapOf(cache: ResourceCache<unknown>): string | undefined {
  if (cache.isUsable) return undefined;
  const { name, isSynced, problem } = cache.state;
  const state = isSynced ? `changes of ${name} are not being heard of` : `${name} have not been read yet`;
  if (problem === undefined) return state;
  return `${state}: ${problem}${isForbidden(problem) ? ` (${MANIFEST} has the right)` : ""}`;
}

/** Recognises a refusal of the API server's authorizer by its words: a watch keeps no status. */
function isForbidden(problem: string): boolean {
  return /\bforbidden\b/i.test(problem);
}

/**
 * Joins a watch to what it tells. The watch ends with those that it belongs to.
 * @param name says what is read, for a gap before the watch has begun
 * @param tell passes on a change of one object
 * @param isSame says that nothing has changed of what is read: then nobody is told
 */
export function watchedPart<T>(
  name: string,
  begin: () => ResourceCache<T>,
  tell: (change: CacheChange<T>, to: Telling) => void,
  isSame: (before: T | undefined, after: T | undefined) => boolean = () => false,
): SourcePart {
  let cache: ResourceCache<T> | undefined;
  return {
    start(to) {
      cache = begin();
      cache.onChange((change) => {
        if (isSame(change.before, change.after)) return;
        tell(change, to);
        to.changed();
      });
    },
    get gap() {
      return cache === undefined ? `${name} have not been read yet` : gapOf(cache);
    },
    get isComplete() {
      return cache?.state.isSynced === true;
    },
    caughtUp: async (signal) => cache?.caughtUp(signal),
    async [Symbol.asyncDispose]() {
      // Nothing of its own is open.
    },
  };
}

function isEqual(before: unknown, after: unknown): boolean {
  return Bun.deepEquals(before, after);
}

export function policiesOf(informers: Watching): SourcePart {
  const name = "network policies";
  const begin = () => informers.watch({ name, path: "/apis/networking.k8s.io/v1/networkpolicies", decode: decodePolicy });
  return watchedPart(name, begin, ({ key, after }, { sink }) => sink.setPolicy(key, after));
}

/** A policy that cannot be read would be left out, which opens what it closes: the engine judges the spec, whatever it is. */
export function decodePolicy(object: Fields): PolicyObject {
  const { namespace, name, uid, resourceVersion } = metadataOf(object);
  return { namespace, name, uid, resourceVersion, spec: isObject(object.spec) ? object.spec : {} };
}

export function namespacesOf(informers: Watching): SourcePart {
  const name = "namespaces";
  const decode = (object: Fields): Labels => metadataOf(object).labels;
  const heartbeatSeconds = HEARTBEAT_SECONDS;
  const begin = () => informers.watch({ name, path: "/api/v1/namespaces", decode, isMetadataOnly: true, heartbeatSeconds });
  return watchedPart(name, begin, ({ key, after }, { sink }) => sink.setNamespace(key, after), isEqual);
}

export const PODS = "/api/v1/pods";

/** Watches the pods of the whole cluster by their metadata. */
export function podsOf(informers: Watching): SourcePart {
  const name = "metadata of all pods";
  const begin = () => informers.watch({ name, path: PODS, decode: decodeClaims, isMetadataOnly: true, isLarge: true });
  return watchedPart(name, begin, ({ key, after }, { book }) => book.setPod(key, after));
}

/** @param object a pod, or the metadata of one */
export function decodeClaims(object: Fields): ClaimingPod {
  const { namespace, name, labels, annotations } = metadataOf(object);
  return { namespace, name, labels, claim: new Claimed(annotatedAddresses(annotations)) };
}

/** Empty after a DEL, which empties both. */
function annotatedAddresses(annotations: Readonly<Record<string, string>>): readonly Address[] {
  const text = annotations[POD_IPS] || annotations[POD_IP] || "";
  if (text === "") return [];
  return listedAddresses(text).elements.flatMap((element) => parseAddress(element) ?? parsePrefix(element)?.address ?? []);
}

interface BlocksInput {
  /** The agent's one watch of the blocks. */
  readonly blocks: (group: ApiGroup) => ResourceCache<WatchedBlock | undefined>;
  /** Says which group has Calico's objects. @throws Error while the server cannot say */
  readonly group: () => Promise<ApiGroup>;
  readonly clock: Clock;
}

const DISCOVERY: BackOff = { base: 500, longest: 10_000 };

/** Hears of the allocator's blocks, which say which pod has each address. */
export function blocksOf({ blocks, group, clock }: BlocksInput): SourcePart {
  let cache: ResourceCache<WatchedBlock | undefined> | undefined;
  let forget = () => {};
  const stopping = new AbortController();
  let problem = "";
  const discover = async (): Promise<ApiGroup | undefined> => {
    for (let failures = 0; !stopping.signal.aborted; ) {
      try {
        return await group();
      } catch (error) {
        problem = `: ${messageOf(error)}`;
        await clock.sleep(pauseAfter(++failures, DISCOVERY, clock), stopping.signal);
      }
    }
    return undefined;
  };
  return {
    start({ book, changed }) {
      void discover().then((found) => {
        if (found === undefined || stopping.signal.aborted) return;
        cache = blocks(found);
        const tell = (before: WatchedBlock | undefined, after: WatchedBlock | undefined) => {
          if (before !== undefined) book.setBlock(formatPrefix(before.cidr), after && heldBlock(after));
          else if (after !== undefined) book.setBlock(formatPrefix(after.cidr), heldBlock(after));
        };
        forget = cache.onChange(({ before, after }) => {
          tell(before, after);
          changed();
        });
        // Routes may have begun the watch.
        for (const block of cache.list()) tell(undefined, block);
        changed();
      });
    },
    get gap() {
      return cache === undefined ? `blocks of addresses have not been read yet${problem}` : gapOf(cache);
    },
    get isComplete() {
      return cache?.state.isSynced === true;
    },
    caughtUp: async (signal) => cache?.caughtUp(signal),
    async [Symbol.asyncDispose]() {
      stopping.abort();
      forget();
    },
  };
}

function heldBlock({ cidr, allocated }: WatchedBlock): HeldBlock {
  const holders = new Map<string, string>();
  for (const { address, namespace, pod } of allocated) {
    if (namespace !== undefined && pod !== undefined) holders.set(formatAddress(address), `${namespace}/${pod}`);
  }
  return { cidr, holders };
}

/** Watches the ranges that the cluster gives its nodes (`spec.podCIDRs`, which no node may write). */
export function rangesOf(informers: Watching): SourcePart {
  const name = "ranges of nodes";
  const begin = () => informers.watch({ name, path: "/api/v1/nodes", decode: decodeRanges });
  // Kubelet writes its Node object every few minutes.
  return watchedPart(name, begin, ({ key, after }, { book }) => book.setRanges(key, after ?? []), isEqual);
}

function decodeRanges(object: Fields): readonly Prefix[] {
  return textList(section(object, "spec"), "podCIDRs")
    .flatMap((text) => parsePrefix(text) ?? [])
    .map(maskPrefix);
}
