/** An exporter whose failures the log tells of: once when they begin and once when they are over, not for each batch. */
import type { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import type { SpanExporter } from "@opentelemetry/sdk-trace";

import type { TracingOptions } from "./tracing.ts";

type Export = SpanExporter["export"];

export class ReportedExporter implements SpanExporter {
  readonly #inner: Pick<OTLPTraceExporter, "export" | "forceFlush" | "shutdown">;
  readonly #log: TracingOptions["log"];
  #isFailing = false;

  constructor(inner: Pick<OTLPTraceExporter, "export" | "forceFlush" | "shutdown">, log: TracingOptions["log"]) {
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
