/** An API client whose answers a test writes down in the order of the requests, and which keeps what it was asked. */
import { type ApiClient, ApiError, type ApiErrorFacts, type ApiRequest } from "../../lib/kubernetes/api-client.ts";

/** `"PUT /apis/…"` and what comes back: an object, a text as it is, or a failure. */
export type Exchange = readonly [request: string, answer: object | string | ApiErrorFacts];

export class ScriptedClient implements ApiClient {
  readonly server = "https://api.test:6443";
  readonly asked: ApiRequest[] = [];
  readonly #script: Exchange[];

  constructor(...script: readonly Exchange[]) {
    this.#script = [...script];
  }

  async request(request: ApiRequest): Promise<string> {
    this.asked.push(request);
    const line = `${request.method} ${request.path}`;
    const [expected, answer] = this.#script.shift() ?? ["nothing more", ""];
    if (line !== expected) throw new Error(`asked for "${line}", the script has "${expected}"`);
    if (typeof answer === "string") return answer;
    if ("status" in answer && typeof answer.status === "number") throw new ApiError(`${line}: ${answer.status}`, answer);
    return JSON.stringify(answer);
  }

  connect(): void {}

  close(): void {}

  /** Exchanges that nobody has asked for. */
  get left(): readonly string[] {
    return this.#script.map(([request]) => request);
  }

  /** The JSON that was sent with the n-th request, from 0. */
  sent(index: number): unknown {
    return JSON.parse(this.asked[index]?.body ?? "null");
  }
}
