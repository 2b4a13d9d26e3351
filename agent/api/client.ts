/** Calls the agent's API with the types of its operations: for tortiectl and for tests. */
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { parseJson } from "../../lib/json/parse.ts";
import type { JsonValue } from "../../lib/json/value.ts";
import { systemErrorText } from "../../lib/system/errno.ts";
import type { ErrorObject } from "./node.ts";
import type { AnswerOf, Operation, Part } from "./operation.ts";
import { BASE_PATH, OPERATIONS, type OperationName } from "./operations.ts";

type Of<N extends OperationName> = (typeof OPERATIONS)[N];
type Given<K extends string, T> = T extends undefined ? { readonly [P in K]?: undefined } : { readonly [P in K]: T };

/** What an operation wants; nothing where it wants nothing. */
export type CallOptions<N extends OperationName> = Given<"params", Part<Of<N>, "params">> &
  Given<"body", Part<Of<N>, "body">> & {
    readonly query?: Part<Of<N>, "query">;
    readonly headers?: Readonly<Record<string, string>>;
    readonly signal?: AbortSignal;
  };

/** Carries an error that the agent answered with. */
export class AgentApiError extends Error {
  override readonly name = "AgentApiError";
  readonly status: number;
  readonly answer: ErrorObject;

  constructor(status: number, answer: ErrorObject) {
    super(answer.msg);
    this.status = status;
    this.answer = answer;
  }
}

/** A read takes milliseconds; this only ends what hangs. */
const LIMIT_MS = 10_000;

export class AgentClient {
  readonly #socket: string;

  constructor(socket: string) {
    this.#socket = socket;
  }

  /** @throws AgentApiError for an answer of 400 and more; TortieError `agent-unreachable` where no agent answers */
  async call<N extends OperationName>(name: N, options: CallOptions<N>): Promise<AnswerOf<Of<N>>> {
    const operation: Operation = OPERATIONS[name];
    const response = await this.#ask(operation, options);
    const { status } = response;
    const text = await response.text();
    if (status >= 400) throw new AgentApiError(status, errorObject(text));
    const isText = operation.contentType === "text/plain";
    const body: unknown = text === "" ? (isText || name.startsWith("cni") ? "" : undefined) : isText ? text : JSON.parse(text);
    // The server and its tests hold answers to the schemas that these types are made from.
    return { status, body } as unknown as AnswerOf<Of<N>>;
  }

  /**
   * Gives an answer of JSON lines as it comes, until the agent or the signal ends it.
   * @throws as `call`
   */
  async *lines<N extends OperationName>(name: N, options: CallOptions<N> & { readonly signal: AbortSignal }): AsyncGenerator<JsonValue> {
    const response = await this.#ask(OPERATIONS[name], options);
    if (response.status >= 400) throw new AgentApiError(response.status, errorObject(await response.text()));
    const decoder = new TextDecoder();
    let rest = "";
    try {
      for await (const chunk of response.body ?? []) {
        const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) if (line !== "") yield parseJson(line);
      }
    } catch (error) {
      if (!options.signal.aborted) throw error;
    }
  }

  #ask(operation: Operation, options: CallOptions<OperationName>): Promise<Response> {
    const { params, query, body, headers = {}, signal } = options;
    const path = operation.path.replaceAll(/\{([^}]+)\}/g, (_, key: string) => encodeURIComponent(member(params, key)));
    const search = queryText(query);
    return this.#fetch(operation.method, `${BASE_PATH}${path}${search === "" ? "" : `?${search}`}`, {
      headers: body === undefined ? headers : { "content-type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ?? AbortSignal.timeout(LIMIT_MS),
    });
  }

  async #fetch(method: string, path: string, init: RequestInit): Promise<Response> {
    try {
      return await fetch(`http://agent${path}`, { ...init, method, unix: this.#socket });
    } catch (cause) {
      // The runtime's own text asks for a typing error in the port.
      throw new TortieError("agent-unreachable", `no agent answers at ${this.#socket}: ${systemErrorText(cause) ?? messageOf(cause)}`, {
        cause,
      });
    }
  }
}

function member(params: unknown, key: string): string {
  const value: unknown = typeof params === "object" && params !== null ? Object.getOwnPropertyDescriptor(params, key)?.value : undefined;
  return String(value ?? "");
}

function queryText(query: unknown): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) search.append(key, String(one));
  }
  return search.toString();
}

function errorObject(text: string): ErrorObject {
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found === "object" && found !== null && "msg" in found && "code" in found) {
      return { ...found, code: Number(found.code), msg: String(found.msg) };
    }
  } catch {
    // Somebody else answers there.
  }
  return { code: 999, msg: text.slice(0, 500) };
}
