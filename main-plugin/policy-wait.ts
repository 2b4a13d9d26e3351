/**
 * `policy_setup_timeout_seconds`: an ADD may wait until Felix says that the policy of its endpoint is in place, which Felix does with
 * a file an endpoint (C§2.8). Load this file only where a wait is configured.
 */
import { existsSync, type FSWatcher, watch } from "node:fs";
import { join } from "node:path";
import type { WorkloadEndpoint } from "../lib/datastore/resources.ts";
import { parseWorkloadEndpointName } from "../lib/workload/endpoint-name.ts";

/** How often to look without being told: the directory may come later, or be replaced by another. */
const LOOK_EVERY_MS = 500;

export interface PolicyWait {
  readonly endpoint: Pick<WorkloadEndpoint, "name" | "namespace">;
  /** `endpoint_status_dir`. */
  readonly directory: string;
  readonly timeoutMs: number;
  /** For tests; 500 when absent. */
  readonly lookEveryMs?: number;
}

/**
 * Ends as soon as the file is there.
 * @returns a warning when it is not there in time; the ADD succeeds all the same
 */
export async function awaitPolicy({
  endpoint,
  directory,
  timeoutMs,
  lookEveryMs = LOOK_EVERY_MS,
}: PolicyWait): Promise<string | undefined> {
  const file = endpointStatusFile(endpoint);
  if (file === undefined) return `policy of ${endpoint.namespace}/${endpoint.name} cannot be waited for: that is no endpoint's name`;
  const path = join(directory, file);
  const end = performance.now() + timeoutMs;
  const events = new DirectoryEvents(directory);
  try {
    for (;;) {
      // The watch comes before the look: what appears between the two is seen by one of them.
      events.watch();
      if (existsSync(path)) return undefined;
      const rest = end - performance.now();
      if (rest <= 0)
        return `policy of ${endpoint.namespace}/${endpoint.name} is not in place after ${timeoutMs / 1_000} s: no file ${path}`;
      await events.next(Math.min(lookEveryMs, rest));
    }
  } finally {
    events.close();
  }
}

/**
 * `<orchestrator> <namespace>%2F<workload> <endpoint>`, each of the three escaped as one segment of a URL's path: "k8s default%2Fweb eth0".
 * @returns `undefined` for a name that is none of an endpoint's
 */
export function endpointStatusFile({ name, namespace }: PolicyWait["endpoint"]): string | undefined {
  const parts = parseWorkloadEndpointName(name);
  if (parts === undefined || parts.endpoint === "") return undefined;
  return [parts.orchestrator, `${namespace}/${parts.workload}`, parts.endpoint].map(escapePathSegment).join(" ");
}

/** As Go's url.PathEscape: letters, digits and `-_.~$&+:=@` stay (net/url, shouldEscape). */
function escapePathSegment(text: string): string {
  return encodeURIComponent(text)
    .replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
    .replace(/%(?:24|26|2B|3A|3D|40)/g, decodeURIComponent);
}

/** inotify(7) on one directory, as far as it can be had: looking every now and then makes good for what it misses. */
class DirectoryEvents {
  readonly #directory: string;
  #watcher: FSWatcher | undefined;
  #wake: () => void = () => {};

  constructor(directory: string) {
    this.#directory = directory;
  }

  watch(): void {
    if (this.#watcher !== undefined) return;
    try {
      this.#watcher = watch(this.#directory, () => this.#wake());
      this.#watcher.on("error", () => this.close());
    } catch {
      // No such directory yet: the next look tries again.
    }
  }

  /** The next event, or the end of the time. */
  async next(milliseconds: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, milliseconds);
    this.#wake = resolve;
    await promise;
    clearTimeout(timer);
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }
}
