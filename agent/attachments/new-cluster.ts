/**
 * Makes an ADD wait for ClusterInformation and a pool (`--first-pool-wait`), which a new cluster has only when the controller, or a person,
 * has made them, so that the first pods of a cluster need no second try. Once a datastore has both, nothing is asked any more; who waits in
 * vain learns why from the ADD itself.
 */

import { wantedFamilies } from "../../ipam-plugin/status.ts";
import { parsePrefix } from "../../lib/addresses/address.ts";
import type { Logger } from "../../lib/log/logger.ts";
import type { Health } from "../../lib/resident/health.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import type { NetworkCall } from "../../main-plugin/call.ts";
import type { Host } from "../../main-plugin/host.ts";

export interface NewClusterOptions {
  /** 0: nobody waits. */
  readonly limitMs: number;
  readonly clock: Pick<Clock, "now" | "sleep">;
  readonly health: Pick<Health, "waitFor">;
}

type Datastore = Awaited<ReturnType<Host["datastore"]>>;
type Parts = Pick<Datastore, "clusterInformation" | "pools">;

interface Waiting {
  readonly call: Pick<NetworkCall, "traits" | "config">;
  readonly host: { datastore(): Promise<Parts> };
  readonly log: Pick<Logger, "info">;
}

const LOOK_EVERY_MS = 500;

export class NewCluster {
  readonly #options: NewClusterOptions;
  /** What has been seen once, of each host; the ADD itself looks again. */
  readonly #seen = new WeakMap<Waiting["host"], Set<string>>();
  /** Looks that are under way: ADDs of a burst share them. */
  readonly #looks = new Map<Waiting["host"], Promise<ReadonlySet<string>>>();

  constructor(options: NewClusterOptions) {
    this.#options = options;
  }

  /** Waits until everything is there, the limit has passed, or the signal is aborted. Never rejects. */
  async untilMade({ call, host, log }: Waiting, signal: AbortSignal): Promise<void> {
    const { limitMs, clock, health } = this.#options;
    if (limitMs === 0 || call.traits.poolsFrom !== "cluster") return;
    const needed = neededBy(call);
    const end = clock.now() + limitMs;
    let over: (() => void) | undefined;
    try {
      for (;;) {
        const missing = await this.#missing(needed, host);
        const [first] = missing;
        const restMs = end - clock.now();
        if (first === undefined || restMs <= 0 || signal.aborted) return;
        if (over === undefined) {
          over = health.waitFor(`${first}: tortie-controller makes it in a new cluster, and its log says what it lacks; or create it`);
          log.info(`waits up to ${limitMs / 1000} s for what a new cluster has not yet: ${missing.join(", ")}`);
        }
        await clock.sleep(Math.min(LOOK_EVERY_MS, restMs), signal);
      }
    } finally {
      over?.();
    }
  }

  async #missing(needed: readonly string[], host: Waiting["host"]): Promise<readonly string[]> {
    const seen = this.#seen.getOrInsertComputed(host, () => new Set());
    if (needed.some((what) => !seen.has(what))) for (const what of await this.#look(host)) seen.add(what);
    return needed.filter((what) => !seen.has(what));
  }

  #look(host: Waiting["host"]): Promise<ReadonlySet<string>> {
    return this.#looks.getOrInsertComputed(host, () => lookAt(host).finally(() => this.#looks.delete(host)));
  }
}

const INFORMATION = "ClusterInformation default";
const POOLS = { 4: "an IPv4 pool (IPPool)", 6: "an IPv6 pool (IPPool)" } as const;

/** Pools that the configuration names are a matter of its own: they may never come. */
function neededBy({ config }: Waiting["call"]): readonly string[] {
  const { type } = config.ipam;
  if (type !== "tortie-ipam" && type !== "calico-ipam") return [INFORMATION];
  return [INFORMATION, ...wantedFamilies(config).flatMap(({ family, entries }) => (entries.length === 0 ? [POOLS[family]] : []))];
}

/** Looks once. A datastore that does not answer has nothing yet; the ADD says why. */
async function lookAt(host: Waiting["host"]): Promise<ReadonlySet<string>> {
  try {
    const { clusterInformation, pools } = await host.datastore();
    const [information, all] = [await clusterInformation.get("default"), await pools.list()];
    const families = all.flatMap(({ value }) => parsePrefix(value.cidr)?.address.family ?? []);
    return new Set([...(information === undefined ? [] : [INFORMATION]), ...families.map((family) => POOLS[family])]);
  } catch {
    return new Set();
  }
}
