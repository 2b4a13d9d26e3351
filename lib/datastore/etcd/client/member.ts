/** One member of the cluster: a question to its JSON gateway, and its answer or its refusal. */
import { isNumber, isText, parseObject } from "../../../json/decode.ts";
import { Transport } from "../../../kubernetes/client/transport.ts";
import type { ApiServer } from "../../../kubernetes/config/api-config.ts";
import { excerpt } from "../../../log/format.ts";
import type { Secrets } from "../../../log/secrets.ts";
import { CODES, type Refusal } from "./etcd-error.ts";
import type { EtcdSettings } from "./settings.ts";

const OK = 200;
/** etcd answers a request at once where its member has no leader, instead of after 7 s (etcd's api/v3rpc/interceptor.go). */
const REQUIRE_LEADER = ["Grpc-Metadata-hasleader", "true"] as const;
/** So much of a refusal is looked at, in characters, and so much of it is quoted. */
const MOST_OF_A_REFUSAL = 64 * 1024;
const QUOTED = 500;
/** Of an answer that is none of etcd's. */
const QUOTED_OF_OTHERS = 200;

export class Member {
  readonly url: string;
  readonly #server: ApiServer;
  readonly #transport: Transport;
  readonly #secrets: Secrets;

  /** @param secrets that no refusal may repeat */
  constructor(server: ApiServer, { trust, certificate }: Pick<EtcdSettings, "trust" | "certificate">, secrets: Secrets) {
    this.url = server.url;
    this.#server = server;
    this.#secrets = secrets;
    this.#transport = new Transport({ server, trust, proxy: undefined }, certificate);
  }

  /**
   * @param path below the gateway's root: "/v3/kv/range"
   * @returns the text of the answer, or what the member said instead, without secrets
   * @throws TransportError
   */
  async ask(path: string, body: string, token: string | undefined, limitMs: number): Promise<string | Refusal> {
    const answer = await this.#transport.exchange({ ...this.#request(path, body, token), isRepeatable: false }, limitMs);
    return answer.status === OK ? answer.body : this.#refusalOf(answer.status, answer.body.slice(0, MOST_OF_A_REFUSAL));
  }

  /**
   * A question whose answers come one after the other, for as long as `signal` does not abort.
   * @param limitMs for the first one
   * @returns the bytes as they come, or what the member said instead, without secrets
   * @throws TransportError
   */
  async stream(
    path: string,
    body: string,
    token: string | undefined,
    signal: AbortSignal,
    limitMs: number,
  ): Promise<AsyncIterable<Uint8Array> | Refusal> {
    const answer = await this.#transport.stream(this.#request(path, body, token), signal, limitMs);
    const { status, body: bytes } = answer;
    return status === OK && bytes !== null ? bytes : this.#refusalOf(status, await beginningOf(bytes));
  }

  #request(path: string, body: string, token: string | undefined) {
    const headers: (readonly [string, string])[] = [["Content-Type", "application/json"], REQUIRE_LEADER];
    if (token !== undefined) headers.push(["Authorization", token]);
    return { method: "POST", target: `${this.#server.basePath}${path}`, headers, body } as const;
  }

  /** Ends the connection: the next question makes a new one. */
  disconnect(): void {
    this.#transport.disconnect();
  }

  close(): void {
    this.#transport.close();
  }

  #refusalOf(status: number, body: string): Refusal {
    try {
      const { code, message, error } = parseObject(body);
      const words = isText(message) ? message : error;
      if (isNumber(code) && isText(words)) return { code, message: excerpt(this.#secrets.redact(words), QUOTED) };
    } catch {
      // Not etcd's own words.
    }
    // A load balancer without servers answers with 502 to 504; a member never does so without a code.
    const code = status >= 500 ? CODES.unavailable : CODES.none;
    const quoted = excerpt(this.#secrets.redact(body), QUOTED_OF_OTHERS);
    return { code, message: `status ${status}: ${quoted} (is this the JSON gateway of etcd v3?)` };
  }
}

/** What came first of a refusal, which is all of it but for a peer that is no member. */
async function beginningOf(bytes: AsyncIterable<Uint8Array> | null): Promise<string> {
  for await (const first of bytes ?? []) return new TextDecoder().decode(first).slice(0, MOST_OF_A_REFUSAL);
  return "";
}
