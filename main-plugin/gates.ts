/**
 * Waits for what an ADD needs: a cluster whose datastore may be changed, the URLs of `readiness_gates`, and, when everything is done,
 * Felix's word that the policy of the endpoint is in place (C§2.1, C§2.2, C§2.8).
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Environment } from "../lib/cni/protocol.ts";
import { assertNodeName, checkNodenameFile } from "../lib/config/node-name.ts";
import { DatastoreError } from "../lib/datastore/errors.ts";
import type { ClusterInformation } from "../lib/datastore/resources.ts";
import { ForeignCniError, messageOf, TortieError } from "../lib/errors/errors.ts";
import { proxyFor, proxyOption } from "../lib/kubernetes/config/proxy.ts";
import { DirectoryEvents } from "../lib/system/directory-events.ts";
import { sleepUnless } from "../lib/system/waiting.ts";
import type { WorkloadEndpoint } from "../lib/workload/endpoint.ts";
import { parseWorkloadEndpointName } from "../lib/workload/names.ts";
import type { AddCall, NetworkCall } from "./call.ts";
import type { Host } from "./host.ts";

const PROBE_LIMIT_MS = 5_000;
const INTERVAL_MS = 5_000;
const GATE_LIMIT_MS = 30_000;
const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];
/** As Go's net/http. */
const MOST_REDIRECTS = 10;
/** How often to look for Felix's file without being told: the directory may come later, or be replaced by another. */
const LOOK_EVERY_MS = 500;

/** A pause is a barrier: a look at it that is older than this is repeated before the first write of IPAM. */
const MOST_AGE_MS = 1_000;

/**
 * Comes before anything is read: the pod may change while its ADD waits at a gate.
 * @returns asks again whether the cluster is ready, unless that was found out within the last second: just before addresses are taken
 * @throws as the two that it calls, and so does what it returns
 */
export async function readyForPods(
  call: AddCall,
  host: Pick<Host, "datastore">,
  now = () => performance.now(),
): Promise<() => Promise<void>> {
  if (hasCluster(call)) await withContext("error creating calico client", () => host.datastore());
  const lookedAt = now();
  await assertClusterReady(call, host);
  await assertPlaceForPods(call, host);
  call.log.step("cluster");
  await awaitReadinessGates(call.config.readinessGates, call.env, { sleep: (milliseconds) => sleepUnless(call.signal, milliseconds) });
  return async () => {
    if (now() - lookedAt > MOST_AGE_MS) await assertClusterReady(call, host);
  };
}

/** Waits for the policy, for pods whose policy Felix programs. The ADD succeeds even if Felix is late. */
export async function policyReady({ config, log, signal }: NetworkCall, endpoint: WorkloadEndpoint): Promise<void> {
  if (config.policySetupTimeoutSeconds <= 0 || endpoint.orchestrator !== "k8s") return;
  const timeoutMs = config.policySetupTimeoutSeconds * 1_000;
  const warning = await awaitPolicy({ endpoint, directory: config.endpointStatusDir, timeoutMs, isGivenUp: () => signal.aborted });
  if (warning !== undefined) log.error(warning);
}

/**
 * Refuses during an upgrade or a migration of the cluster (C§2.1 steps 8 and 9). A node without a cluster is ready unless a migration of
 * its store says otherwise.
 * @throws TortieError `cluster-not-ready`, `datastore-object-missing`; DatastoreError
 */
export async function assertClusterReady(call: Pick<NetworkCall, "traits">, host: Pick<Host, "datastore">): Promise<void> {
  const { clusterInformation } = await host.datastore();
  if (!hasCluster(call)) {
    const information = await clusterInformation.get("default");
    if (information?.value.datastoreReady !== false) return;
    throw new TortieError("cluster-not-ready", "the local datastore is not ready to process requests: it is being migrated");
  }
  const { datastoreReady } = await withContext("error getting ClusterInformation", async () =>
    existing((await clusterInformation.get("default"))?.value),
  );
  if (datastoreReady === true) return;
  const reason = datastoreReady === false ? "" : ": datastoreReady of ClusterInformation default is not set";
  throw new TortieError("cluster-not-ready", `Calico is currently not ready to process requests${reason}`);
}

/**
 * Refuses a node without a name, after everything that keeps the cluster from answering: its file is missing on every node that does not
 * run Calico, and would hide the reason that can be mended. A cluster without pools has not been set up at all.
 * @throws TortieError `nodename-file-missing`, `nodename-invalid`, `pool-none`
 */
async function assertPlaceForPods(call: AddCall, host: Pick<Host, "datastore">): Promise<void> {
  try {
    assertNodeNamed(call);
  } catch (unnamed) {
    if (hasCluster(call) && call.ipam.isOurs && (await (await host.datastore()).pools.list()).length === 0) {
      throw new TortieError("pool-none", "cannot find a qualified ippool: there is none in the cluster", { cause: unnamed });
    }
    throw unnamed;
  }
}

/** @throws TortieError `nodename-file-missing`, `nodename-invalid` */
export function assertNodeNamed({ config, datastore, nodeName }: Pick<NetworkCall, "config" | "datastore" | "nodeName">): void {
  checkNodenameFile(config, datastore);
  assertNodeName(nodeName);
}

/** Says whether there is a cluster, whose upgrade or migration may pause the datastore. */
function hasCluster({ traits }: Pick<NetworkCall, "traits">): boolean {
  return traits.poolsFrom === "cluster";
}

function existing(found: ClusterInformation | undefined): ClusterInformation {
  if (found === undefined) throw new TortieError("datastore-object-missing", "resource does not exist: ClusterInformation(default)");
  return found;
}

interface ProbeOptions {
  readonly signal: AbortSignal;
  readonly redirect: "manual";
  readonly proxy: Bun.FetchProxyOption;
}

/** The outside, for tests. */
export interface GateServices {
  readonly fetch: (url: string, options: ProbeOptions) => Promise<Response>;
  readonly sleep: (milliseconds: number) => Promise<void>;
  /** Milliseconds of a clock that never jumps. */
  readonly now: () => number;
}

/**
 * Waits for one gate after the other, each with 30 s of its own.
 *
 * @param urls absolute; `checkReadinessGates` has judged them
 * @param env says which proxy there is, if any
 * @throws TortieError `readiness-gate-closed` naming the gate and what its last probe came to; what `sleep` throws
 */
export async function awaitReadinessGates(urls: readonly string[], env: Environment, services: Partial<GateServices> = {}): Promise<void> {
  const { fetch = globalThis.fetch, sleep = Bun.sleep, now = () => performance.now() } = services;
  for (const url of urls) await awaitGate(url, env, { fetch, sleep, now });
}

/**
 * Probes each gate once, for STATUS, which only wants to know.
 * @throws TortieError `readiness-gate-closed` for the first that is not ready
 */
export async function assertReadinessGates(urls: readonly string[], env: Environment): Promise<void> {
  for (const url of urls) {
    const problem = await probe(url, PROBE_LIMIT_MS, env, globalThis.fetch);
    if (problem !== undefined) throw closed(`readiness gate ${withoutCredentials(url)} is not ready: ${problem}`);
  }
}

async function awaitGate(url: string, env: Environment, services: GateServices): Promise<void> {
  const { fetch, sleep, now } = services;
  const end = now() + GATE_LIMIT_MS;
  for (;;) {
    const started = now();
    const problem = await probe(url, Math.min(PROBE_LIMIT_MS, end - started), env, fetch);
    if (problem === undefined) return;
    const next = Math.max(now(), started + INTERVAL_MS);
    if (next >= end) {
      // Calico's words (recording gates-500), and what they leave out.
      const gate = `readiness gate ${withoutCredentials(url)}`;
      throw closed(`context deadline exceeded: ${gate} was not ready within ${GATE_LIMIT_MS / 1_000} s, at last: ${problem}`);
    }
    await sleep(next - now());
  }
}

/** @returns `undefined` when the gate is ready: a status of 200 to 399 behind all redirects */
async function probe(url: string, limitMs: number, env: Environment, fetch: GateServices["fetch"]): Promise<string | undefined> {
  try {
    const signal = AbortSignal.timeout(limitMs);
    let next: string | undefined = url;
    let response: Response;
    for (let redirects = 0; ; redirects++) {
      response = await fetch(next, { signal, redirect: "manual", proxy: proxyOption(proxyOf(new URL(next), env)) });
      // Only the status counts; the body is not awaited.
      await response.body?.cancel();
      next = REDIRECTS.includes(response.status) ? redirectOf(response, next) : undefined;
      if (next === undefined) break;
      if (redirects === MOST_REDIRECTS) return `more than ${MOST_REDIRECTS} redirects`;
    }
    return response.status >= 200 && response.status < 400 ? undefined : `status ${response.status}`;
  } catch (error) {
    const isLate = error instanceof Error && error.name === "TimeoutError";
    return isLate ? `no answer within ${Math.ceil(limitMs / 1_000)} s` : messageOf(error);
  }
}

/** Chooses the proxy as for the API server: this machine itself, and what NO_PROXY names, are reached without one. */
function proxyOf({ protocol, hostname, port }: URL, env: Environment): string | undefined {
  const isTls = protocol === "https:";
  const host = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
  return proxyFor({ hostname: host, port: port === "" ? (isTls ? 443 : 80) : Number(port), isTls }, env, undefined, "");
}

/** @returns `undefined` for a status that only looks like a redirect: the answer itself counts then */
function redirectOf({ headers }: Response, from: string): string | undefined {
  const location = headers.get("location");
  return location === null ? undefined : new URL(location, from).href;
}

function closed(message: string): TortieError {
  return new TortieError("readiness-gate-closed", message);
}

/** Removes a password or a token from what is shown. */
function withoutCredentials(url: string): string {
  const shown = URL.parse(url);
  if (shown === null) return "with an invalid URL";
  shown.username = "";
  shown.password = "";
  shown.search = "";
  return shown.href;
}

export interface PolicyWait {
  readonly endpoint: Pick<WorkloadEndpoint, "name" | "namespace">;
  /** `endpoint_status_dir`. */
  readonly directory: string;
  readonly timeoutMs: number;
  /** For tests; 500 when absent. */
  readonly lookEveryMs?: number;
  /** Whether the caller has given up; asked at each look. */
  readonly isGivenUp?: () => boolean;
}

/**
 * Waits until the file is there.
 * @returns a warning when it is not there in time; the ADD succeeds all the same
 */
export async function awaitPolicy({
  endpoint,
  directory,
  timeoutMs,
  lookEveryMs = LOOK_EVERY_MS,
  isGivenUp = () => false,
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
      if (existsSync(path) || isGivenUp()) return undefined;
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
 * Names the file `<orchestrator> <namespace>%2F<workload> <endpoint>`, each of the three escaped as one segment of a URL's path:
 * "k8s default%2Fweb eth0".
 * @returns `undefined` for a name that cannot be an endpoint's
 */
export function endpointStatusFile({ name, namespace }: PolicyWait["endpoint"]): string | undefined {
  const parts = parseWorkloadEndpointName(name);
  if (parts === undefined || parts.endpoint === "") return undefined;
  return [parts.orchestrator, `${namespace}/${parts.workload}`, parts.endpoint].map(escapePathSegment).join(" ");
}

/** Escapes as Go's url.PathEscape does: letters, digits and `-_.~$&+:=@` stay (net/url, shouldEscape). */
function escapePathSegment(text: string): string {
  return encodeURIComponent(text)
    .replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
    .replace(/%(?:24|26|2B|3A|3D|40)/g, decodeURIComponent);
}

/** @throws what `work` throws, as the same kind of error with `what` and a colon before its text */
export async function withContext<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof DatastoreError) throw new DatastoreError(error.failure, `${what}: ${error.message}`, error, error.word);
    if (error instanceof ForeignCniError) throw new ForeignCniError(error.code, `${what}: ${error.message}`, error.details);
    if (!(error instanceof TortieError)) throw error;
    const { word, next, details } = error;
    throw new TortieError(word, `${what}: ${error.message}`, { cause: error, next, details });
  }
}
