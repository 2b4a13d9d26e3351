/** A receiver of traces by OTLP/HTTP in JSON on a pretend machine's loopback, which answers as it is told. */
import { join } from "node:path";

import { parseObject } from "../../lib/json/decode.ts";
import { pause, startProcess } from "./kubernetes/process.ts";
import type { Node } from "./node.ts";

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty: the first of its trace. */
  readonly parentSpanId: string;
  readonly name: string;
  readonly service: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** 0 not set, 1 ok, 2 error (opentelemetry-proto, trace.proto). */
  readonly status: number;
  /** Nanoseconds since 1970. */
  readonly start: bigint;
  readonly end: bigint;
}

export type Behaviour = "accepts" | "refuses" | "hangs" | "is away";

/** IANA: OTLP over HTTP. */
const PORT = 4318;
/** What `--otlp-endpoint` and OTEL_EXPORTER_OTLP_ENDPOINT take. */
export const OTLP_ENDPOINT = `http://127.0.0.1:${PORT}`;
const LOOK_MS = 10;

export class OtlpReceiver implements Disposable {
  readonly spans: ReceivedSpan[] = [];
  /** Requests, whatever became of them. */
  requests = 0;
  readonly #behaviour: Behaviour;
  readonly #server: Bun.Server<undefined>;

  private constructor(socket: string, behaviour: Behaviour) {
    this.#behaviour = behaviour;
    this.#server = Bun.serve({ unix: socket, fetch: (request) => this.#answer(request) });
  }

  /** Listens on the node's 127.0.0.1: a socket file is not bound to a network namespace. */
  static async start(node: Node, behaviour: Behaviour = "accepts"): Promise<OtlpReceiver> {
    const socket = join(node.dir, "otlp.sock");
    const receiver = new OtlpReceiver(socket, behaviour);
    if (behaviour === "is away") return receiver;
    const listen = `TCP-LISTEN:${PORT},bind=127.0.0.1,fork,reuseaddr`;
    startProcess(["/usr/bin/nsenter", `--net=${node.netnsPath}`, "/usr/bin/socat", listen, `UNIX-CONNECT:${socket}`], `${socket}.log`);
    while (!(await node.run(["/usr/bin/ss", "-Hltn", `sport = ${PORT}`])).stdout.includes(String(PORT))) await pause(LOOK_MS);
    return receiver;
  }

  readonly endpoint = OTLP_ENDPOINT;

  named(name: string): ReceivedSpan[] {
    return this.spans.filter((span) => span.name === name);
  }

  below({ spanId }: ReceivedSpan): ReceivedSpan[] {
    return this.spans.filter(({ parentSpanId }) => parentSpanId === spanId);
  }

  [Symbol.dispose](): void {
    void this.#server.stop(true);
  }

  async #answer(request: Request): Promise<Response> {
    this.requests++;
    if (new URL(request.url).pathname !== "/v1/traces") return new Response("", { status: 404 });
    const text = await request.text();
    if (this.#behaviour === "hangs") return new Promise(() => {});
    if (this.#behaviour === "refuses") return new Response("", { status: 400 });
    this.spans.push(...spansOf(parseObject(text)));
    return Response.json({});
  }
}

/** opentelemetry-proto, collector/trace/v1: resourceSpans, scopeSpans, spans. */
function spansOf(document: unknown): ReceivedSpan[] {
  return members(document, "resourceSpans").flatMap((resource) => {
    const service = String(attributesOf(member(resource, "resource"))["service.name"]);
    return members(resource, "scopeSpans").flatMap((scope) => members(scope, "spans").map((span) => spanOf(span, service)));
  });
}

function spanOf(span: unknown, service: string): ReceivedSpan {
  return {
    traceId: String(member(span, "traceId")),
    spanId: String(member(span, "spanId")),
    parentSpanId: String(member(span, "parentSpanId") ?? ""),
    name: String(member(span, "name")),
    service,
    attributes: attributesOf(span),
    status: Number(member(member(span, "status"), "code") ?? 0),
    start: BigInt(String(member(span, "startTimeUnixNano"))),
    end: BigInt(String(member(span, "endTimeUnixNano"))),
  };
}

function attributesOf(object: unknown): Record<string, unknown> {
  return Object.fromEntries(
    members(object, "attributes").map((attribute) => {
      const [value] = Object.values(Object(member(attribute, "value")));
      return [String(member(attribute, "key")), value];
    }),
  );
}

function members(object: unknown, name: string): unknown[] {
  const list = member(object, name);
  return Array.isArray(list) ? list : [];
}

function member(object: unknown, name: string): unknown {
  return typeof object === "object" && object !== null ? Reflect.get(object, name) : undefined;
}
