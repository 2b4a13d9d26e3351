/**
 * Sends traces through OpenTelemetry's SDK to an OTLP/HTTP receiver. Spans wait in a bounded queue and go out in the background; a receiver that
 * is away or hangs costs spans and nothing else. Nothing is registered with OpenTelemetry's global API.
 */
import { AsyncLocalStorage } from "node:async_hooks";

import { type Attributes, type Context, ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode, type Tracer, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, type SpanExporter, TracerProvider } from "@opentelemetry/sdk-trace";

import { TortieError } from "../../lib/errors/errors.ts";
import type { CallTrace, TraceAttributes, TraceParent, Tracing } from "./tracing.ts";

const NAME = "tortie-node";
const PATH = "v1/traces";
/** Spans that come within this time go out together. */
const SEND_AFTER_MS = 1_000;

export interface OtlpOptions {
  /** `--otlp-endpoint`: base URL of a receiver, which `/v1/traces` is added to. */
  readonly endpoint: string | undefined;
  readonly node: string;
  readonly version: string;
  readonly log: { info(message: string): void; error(message: string): void };
}

export class OtlpTracing implements Tracing {
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;
  readonly #running = new AsyncLocalStorage<OtlpCall>();

  /** @throws Error when the endpoint is no URL */
  constructor({ endpoint, node, version, log }: OtlpOptions) {
    const own = resourceFromAttributes({ "service.name": NAME, "service.version": version, "host.name": node });
    const given = detectResources({ detectors: [envDetector] });
    // The exporter itself reads the standard variables for everything that is missing here.
    const exporter = new OTLPTraceExporter(endpoint === undefined ? {} : { url: tracesBelow(endpoint) });
    this.#provider = new TracerProvider({
      resource: defaultResource().merge(own).merge(given),
      spanProcessors: [new BatchSpanProcessor({ exporter: new ReportedExporter(exporter, log), scheduledDelayMillis: SEND_AFTER_MS })],
    });
    this.#tracer = this.#provider.getTracer(NAME, version);
  }

  begin(name: string, attributes: TraceAttributes, parent: TraceParent | undefined): CallTrace {
    return new OtlpCall(this.#tracer, this.#running, { name, attributes, parent });
  }

  async during<T>(name: string, attributes: TraceAttributes, work: () => Promise<T>): Promise<T> {
    const call = this.#running.getStore();
    // A watch or a connection that a call has begun may go on without the call.
    if (call === undefined || call.hasEnded) return work();
    const { span, end } = call.part(name, attributes);
    return until(span, end, work);
  }

  async stop(limitMs: number): Promise<void> {
    await Promise.race([this.#provider.shutdown().catch(() => undefined), Bun.sleep(limitMs)]);
  }
}

interface Beginning {
  readonly name: string;
  readonly attributes: Attributes;
  readonly parent: TraceParent | undefined;
}

class OtlpCall implements CallTrace {
  readonly traceId: string;
  readonly #tracer: Tracer;
  readonly #running: AsyncLocalStorage<OtlpCall>;
  readonly #span: Span;
  readonly #now = steadyTime();
  /** When the step began that runs now, and its span once it has parts: its name is known only when it ends. */
  #stepBegan = this.#now();
  #stepSpan: Span | undefined;
  #hasEnded = false;

  constructor(tracer: Tracer, running: AsyncLocalStorage<OtlpCall>, { name, attributes, parent }: Beginning) {
    this.#tracer = tracer;
    this.#running = running;
    this.#span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes, startTime: this.#stepBegan }, contextOf(parent));
    this.traceId = this.#span.spanContext().traceId;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  step(name: string): void {
    if (this.#hasEnded) return;
    this.#openStep().updateName(name);
    this.#endStep();
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    const end = () => {
      this.#endStep();
      this.#hasEnded = true;
      this.#span.end(this.#now());
    };
    return this.#running.run(this, () => until(this.#span, end, work));
  }

  /** Begins a span below the step that runs now. */
  part(name: string, attributes: Attributes): { readonly span: Span; readonly end: () => void } {
    const context = trace.setSpan(ROOT_CONTEXT, this.#openStep());
    const span = this.#tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes, startTime: this.#now() }, context);
    return { span, end: () => span.end(this.#now()) };
  }

  #openStep(): Span {
    this.#stepSpan ??= this.#tracer.startSpan("rest", { startTime: this.#stepBegan }, trace.setSpan(ROOT_CONTEXT, this.#span));
    return this.#stepSpan;
  }

  #endStep(): void {
    const now = this.#now();
    this.#stepSpan?.end(now);
    this.#stepSpan = undefined;
    this.#stepBegan = now;
  }
}

async function until<T>(span: Span, end: () => void, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    // Leaves out its message, which may name what is secret.
    span.setStatus({ code: SpanStatusCode.ERROR, message: wordOf(error) });
    throw error;
  } finally {
    end();
  }
}

function wordOf(error: unknown): string {
  if (error instanceof TortieError) return error.word;
  return error instanceof Error ? error.name : "error";
}

function contextOf(parent: TraceParent | undefined): Context {
  if (parent === undefined) return ROOT_CONTEXT;
  const { traceId, spanId, flags } = parent;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: flags, isRemote: true });
}

/** Milliseconds since 1970 with their fractions, by a clock that does not jump within one call. */
function steadyTime(): () => number {
  const offset = Date.now() - performance.now();
  return () => offset + performance.now();
}

function tracesBelow(endpoint: string): string {
  return new URL(PATH, endpoint.endsWith("/") ? endpoint : `${endpoint}/`).href;
}

type Export = SpanExporter["export"];

/** Says in the log that sending fails: once when that begins and once when it is over, not for each batch. */
class ReportedExporter implements SpanExporter {
  readonly #inner: Pick<OTLPTraceExporter, "export" | "forceFlush" | "shutdown">;
  readonly #log: OtlpOptions["log"];
  #isFailing = false;

  constructor(inner: Pick<OTLPTraceExporter, "export" | "forceFlush" | "shutdown">, log: OtlpOptions["log"]) {
    this.#inner = inner;
    this.#log = log;
  }

  export(spans: Parameters<Export>[0], done: Parameters<Export>[1]): void {
    this.#inner.export(spans, (result) => {
      this.#report(result.error);
      done(result);
    });
  }

  forceFlush(): Promise<void> {
    return this.#inner.forceFlush();
  }

  shutdown(): Promise<void> {
    return this.#inner.shutdown();
  }

  #report(error: Error | undefined): void {
    if (error !== undefined && !this.#isFailing) this.#log.error(`traces do not arrive: ${error.message}`);
    if (error === undefined && this.#isFailing) this.#log.info("traces arrive again");
    this.#isFailing = error !== undefined;
  }
}
