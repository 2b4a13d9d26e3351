/** Asks an API server what is neither an object nor a list: which time it is there, and for how long it believes us. */
import { X509Certificate } from "node:crypto";
import { endOf } from "../installer/kubeconfig.ts";
import { wordOfTransport } from "../lib/datastore/kubernetes/resource-api.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { ApiConnection } from "../lib/kubernetes/client/connection.ts";
import { TransportError } from "../lib/kubernetes/client/transport-error.ts";
import type { ApiConfig } from "../lib/kubernetes/config/api-config.ts";
import { type Finding, failed, skipped, warned, well } from "./report.ts";

const LIMIT_MS = 10_000;

export interface ServerDate {
  readonly status: number;
  /** How much this host's clock is before the server's, to a second; negative: behind it. */
  readonly aheadMs: number;
}

/** @throws TortieError `datastore-unavailable`, `datastore-untrusted`, `datastore-answer-foreign` when no answer comes, or one without a date */
export async function dateOf(config: ApiConfig): Promise<ServerDate> {
  using connection = new ApiConnection(config);
  try {
    const before = Date.now();
    const { status, headers, body } = await connection.stream({ path: "/version" }, AbortSignal.timeout(LIMIT_MS), LIMIT_MS);
    const now = (before + Date.now()) / 2;
    await body?.cancel();
    const date = Date.parse(headers.get("date") ?? "");
    if (Number.isNaN(date)) throw new TortieError("datastore-unavailable", `${connection.server} does not say which time it is`);
    // The header leaves out the digits below a second (RFC 9110, 5.6.7).
    return { status, aheadMs: now - (date + 500) };
  } catch (error) {
    if (error instanceof TransportError)
      throw new TortieError(wordOfTransport(error), `GET ${connection.server}/version: ${error.message}`, { cause: error });
    throw error;
  }
}

/** Tokens of service accounts are renewed when an hour or more is left (installer/watch.ts, kubelet). */
const SOON_MS = 30 * 60_000;

/** Judges for how long the credentials of a kubeconfig are good, by what they say themselves. */
export function judgeCredentials({ identity }: Pick<ApiConfig, "identity">, nowMs: number): Finding {
  const { description: object, authorization, certificate, plugin } = identity;
  if (plugin !== undefined) return skipped(object, `${plugin.command} hands out the credentials`);
  const ends = [endOfToken(authorization), certificate && Date.parse(new X509Certificate(certificate.certificate).validTo)];
  const known = ends.filter((end) => end !== undefined);
  if (authorization === undefined && certificate === undefined) {
    return failed(object, "there are no credentials", {
      word: "kubeconfig-invalid",
      next: "write a user with a token into the kubeconfig",
    });
  }
  if (known.length === 0) return well(object, "the token does not say when it ends");
  const end = Math.min(...known);
  const time = new Date(end).toISOString();
  const next =
    "let who writes the kubeconfig renew it: the agent with --manage-cni, tortiectl install --watch, or calico-node; look at their logs";
  if (end <= nowMs) return failed(object, `the credentials have ended at ${time}`, { word: "datastore-unauthorized", next });
  if (end - nowMs < SOON_MS) return warned(object, `the credentials end at ${time}, and nobody has renewed them yet`, { next });
  return well(object, `the credentials are good until ${time}`);
}

/** @returns milliseconds since 1970; `undefined` for a token that does not say it, and for what is none */
function endOfToken(authorization: string | undefined): number | undefined {
  try {
    return endOf(authorization ?? "");
  } catch {
    return undefined;
  }
}
