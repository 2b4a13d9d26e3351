/**
 * Traces of the agent's calls (A§8.1): the port, and whether there is anything behind it. OpenTelemetry is loaded only where an endpoint is
 * configured; without one no time is taken.
 */
import type { Environment } from "../../lib/cni/environment.ts";
import type { TraceParent } from "./traceparent.ts";

export type TraceAttributes = Readonly<Record<string, string | number>>;

/** One call: a span, below it one for each step, and below a step what it asks of the kernel and of the API server. */
export interface CallTrace {
  readonly traceId: string;
  /** What was done since the last step, or since the call began, was `name`. */
  step(name: string): void;
  /** Runs the call; its span ends with it. To be called once. */
  run<T>(work: () => Promise<T>): Promise<T>;
}

export interface Tracing {
  /** @param parent the caller's span; without it a trace begins here */
  begin(name: string, attributes: TraceAttributes, parent: TraceParent | undefined): CallTrace;
  /** A part of the call that runs; outside of any call only the work is done. */
  during<T>(name: string, attributes: TraceAttributes, work: () => Promise<T>): Promise<T>;
  /** Sends what is collected, as far as there is time. Never throws. */
  stop(limitMs: number): Promise<void>;
}

export interface TracingOptions {
  /** `--otlp-endpoint`: base URL of a receiver, which `/v1/traces` is added to. */
  readonly endpoint: string | undefined;
  readonly env: Environment;
  readonly node: string;
  readonly version: string;
  readonly log: { info(message: string): void; error(message: string): void };
}

/** @returns `undefined` where no endpoint is configured, or one that makes no sense, which the log says */
export async function openTracing(options: TracingOptions): Promise<Tracing | undefined> {
  const { endpoint, env, log } = options;
  const isConfigured = [endpoint, env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, env.OTEL_EXPORTER_OTLP_ENDPOINT].some(isGiven);
  if (!isConfigured || env.OTEL_SDK_DISABLED?.toLowerCase() === "true") return undefined;
  try {
    const { OtlpTracing } = await import("./otlp-tracing.ts");
    return new OtlpTracing(options);
  } catch (error) {
    log.error(`no traces are sent: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

function isGiven(value: string | undefined): boolean {
  return value !== undefined && value !== "";
}
