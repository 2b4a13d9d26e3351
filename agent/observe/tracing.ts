/**
 * Traces the agent's calls (A§8.1): the port, and what is traced of a call. Without a configured endpoint no time is taken.
 */

import type { Dataplane } from "../../dataplane/dataplane.ts";
import type { EtcdClientOptions } from "../../lib/datastore/etcd/etcd-client.ts";
import type { ApiClient } from "../../lib/kubernetes/api-client.ts";

export interface TraceParent {
  /** 32 hexadecimal digits, lower case. */
  readonly traceId: string;
  /** Of the caller's span: 16 hexadecimal digits, lower case. */
  readonly spanId: string;
  /** 8 bits; the lowest says that the caller records the trace. */
  readonly flags: number;
}

export type TraceAttributes = Readonly<Record<string, string | number>>;

/** One call: a span, below it one for each step, and below a step what it asks of the kernel and of the API server. */
export interface CallTrace {
  readonly traceId: string;
  /** Names what was done since the last step, or since the call began. */
  step(name: string): void;
  /** Runs the call; its span ends with it. To be called once. */
  run<T>(work: () => Promise<T>): Promise<T>;
}

export interface Tracing {
  /** @param parent the caller's span; without it a trace begins here */
  begin(name: string, attributes: TraceAttributes, parent: TraceParent | undefined): CallTrace;
  /** Traces a part of the call that runs; outside of any call it only does the work. */
  during<T>(name: string, attributes: TraceAttributes, work: () => Promise<T>): Promise<T>;
  /** Sends what is collected, as far as there is time. Never throws. */
  stop(limitMs: number): Promise<void>;
}

/** Later versions may say more behind the flags (3.2.4); version ff does not exist. */
const FORM = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const NO_TRACE = /^0+$/;

/**
 * Reads the header by which a caller says of which trace a call is a part (W3C Trace Context, 3.2).
 * @returns `undefined` for everything that makes no sense
 */
export function parseTraceparent(text: unknown): TraceParent | undefined {
  if (typeof text !== "string") return undefined;
  const [, version, traceId = "", spanId = "", flags = "", rest] = FORM.exec(text) ?? [];
  if (version === undefined || NO_TRACE.test(traceId) || NO_TRACE.test(spanId)) return undefined;
  if (version === "00" && rest !== undefined) return undefined;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) };
}

type Parts = Pick<Tracing, "during">;

/** Makes what a call asks of the kernel parts of its trace. @param inner serves every method without its object */
export function tracedDataplane(inner: Dataplane, tracing: Parts | undefined): Dataplane {
  if (tracing === undefined) return inner;
  return {
    apply: (sandbox, desired) =>
      tracing.during("kernel apply", { "network.interface.name": desired.host.name }, () => inner.apply(sandbox, desired)),
    inspect: (sandbox, desired, recorded) => tracing.during("kernel inspect", {}, () => inner.inspect(sandbox, desired, recorded)),
    drift: (sandbox, recorded) => inner.drift(sandbox, recorded),
    mend: (sandbox, recorded) => tracing.during("kernel mend", {}, () => inner.mend(sandbox, recorded)),
    remove: (link) => tracing.during("kernel remove", { "network.interface.name": link.hostInterface }, () => inner.remove(link)),
    ownerOf: (hostInterface) => inner.ownerOf(hostInterface),
    list: () => tracing.during("kernel list", {}, () => inner.list()),
    applyNode: (state) => tracing.during("kernel node", {}, () => inner.applyNode(state)),
  };
}

/** Makes requests to the API server parts of the trace. A write that several calls share is a part of the one that began it. */
export function tracedClient(inner: ApiClient, tracing: Parts | undefined): ApiClient {
  if (tracing === undefined) return inner;
  return {
    server: inner.server,
    request(request) {
      const [path = ""] = request.path.split("?");
      const attributes = { "http.request.method": request.method, "url.path": path, "server.address": inner.server };
      return tracing.during(request.method, attributes, () => inner.request(request));
    },
    close: () => inner.close(),
  };
}

/** Makes requests to etcd parts of the trace. Its gateway has a path for each operation: "/v3/kv/txn". */
export function tracedEtcd(tracing: Parts | undefined): EtcdClientOptions["around"] {
  return tracing && ((path, ask) => tracing.during(`etcd ${path}`, { "url.path": path }, ask));
}
