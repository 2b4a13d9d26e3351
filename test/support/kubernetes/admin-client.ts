/** Plain HTTP to the API server with the administrator's certificate. It shares no code with what is tested. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseLossless, printLossless } from "./json.ts";
import { heardOf } from "./memory.ts";

/** Under this name the harness appears in the audit log, so that it can be left out of what is listed. */
export const HARNESS_AGENT = "tortie-test-harness";
const REQUEST_LIMIT_MS = 30_000;

export interface Answer {
  readonly status: number;
  readonly text: string;
  /** The JSON of the answer with integers beyond 2^53 as `bigint`; `undefined` when it is not JSON. */
  readonly body: unknown;
  readonly headers: Headers;
}

export interface RequestOptions {
  /** JSON when absent, merged into the object by PATCH. */
  readonly contentType?: string;
  /** Another identity than the administrator's. */
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export class AdminClient {
  readonly server: string;
  readonly #tls: { readonly ca: string; readonly cert: string; readonly key: string };

  /** @param dir where the certificates are (credentials.ts) */
  constructor(server: string, dir: string) {
    this.server = server;
    const file = (name: string) => readFileSync(join(dir, name), "utf8");
    this.#tls = { ca: file("ca.crt"), cert: file("admin.crt"), key: file("admin.key") };
  }

  /** @param body an object, sent as JSON, or the exact text. What is written is in the lists of all readers when this returns. */
  async request(method: string, path: string, body?: unknown, options: RequestOptions = {}): Promise<Answer> {
    const answer = await this.#send(method, path, body, options);
    await heardOf(method, path, answer, (other) => this.#send("GET", other, undefined, {}));
    return answer;
  }

  async #send(method: string, path: string, body: unknown, options: RequestOptions): Promise<Answer> {
    const { ca, ...admin } = this.#tls;
    const { contentType = method === "PATCH" ? "application/merge-patch+json" : "application/json" } = options;
    const answer = await fetch(this.server + path, {
      method,
      // A connection that is kept would be one to a server that a test may have stopped since.
      keepalive: false,
      headers: {
        "User-Agent": HARNESS_AGENT,
        Accept: "application/json",
        ...(body === undefined ? {} : { "Content-Type": contentType }),
        ...(options.token === undefined ? {} : { Authorization: `Bearer ${options.token}` }),
        ...options.headers,
      },
      tls: options.token === undefined ? { ca, ...admin } : { ca },
      signal: AbortSignal.timeout(REQUEST_LIMIT_MS),
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : printLossless(body) }),
    });
    const text = await answer.text();
    return { status: answer.status, text, body: parseOrUndefined(text), headers: answer.headers };
  }
}

function parseOrUndefined(text: string): unknown {
  try {
    return parseLossless(text);
  } catch {
    return undefined;
  }
}
