/**
 * The generated clients of @kubernetes/client-node on our own connection. Their own HTTP library hands TLS material to undici's
 * dispatcher, which Bun's fetch does not look at (design §4).
 */
import {
  type HttpLibrary,
  type PromiseHttpLibrary,
  type RequestContext,
  ResponseContext,
  wrapHttpLibrary,
} from "@kubernetes/client-node/dist/gen/http/http.js";
import type { ApiCall, HttpMethod } from "../../lib/kubernetes/api-client.ts";
import type { ApiConnection } from "../../lib/kubernetes/client/connection.ts";

/** The host of the URLs that the generated clients make; only path and query of them are used. */
export const ANY_SERVER = "http://server";

export function httpLibrary(connection: ApiConnection): HttpLibrary {
  const library: PromiseHttpLibrary = {
    async send(request) {
      const answer = await connection.exchange(callOf(request));
      const body = answer.status < 300 ? answer.body : connection.redact(answer.body);
      return new ResponseContext(
        answer.status,
        { "content-type": answer.contentType },
        {
          text: async () => body,
          binary: async () => Buffer.from(body),
          stream: () => new Blob([body]).stream(),
        },
      );
    },
  };
  return wrapHttpLibrary(library);
}

function callOf(request: RequestContext): ApiCall {
  const { pathname, search } = new URL(request.getUrl());
  const body = request.getBody();
  if (body !== undefined && typeof body !== "string") throw new TypeError("the API server is sent JSON only");
  const contentType = Object.entries(request.getHeaders()).find(([name]) => name.toLowerCase() === "content-type")?.[1];
  return { method: methodOf(request.getHttpMethod()), path: pathname + search, body, contentType };
}

const METHODS: readonly HttpMethod[] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

function methodOf(name: string): HttpMethod {
  const method = METHODS.find((known) => known === name);
  if (method === undefined) throw new TypeError(`the API server is not asked with ${name}`);
  return method;
}
