/**
 * Recorded requests made good for one more time: what a write says of the object's revision is what the object has now. Everything
 * else stays as the operation sent it, so that the server does the same work.
 */

import type { SeenRequest } from "../../support/kubernetes/fault-proxy.ts";
import { parseLossless, printLossless } from "../../support/kubernetes/json.ts";
import type { TestCluster } from "../../support/kubernetes/test-cluster.ts";
import type { FloorRequest } from "./floor-program.ts";

interface Metadata {
  uid?: unknown;
  resourceVersion?: unknown;
}

interface Body {
  metadata?: Metadata;
  preconditions?: Metadata;
}

export function freshRequests(seen: readonly SeenRequest[], cluster: TestCluster): Promise<readonly FloorRequest[]> {
  return Promise.all(
    seen.map(async ({ method, path, body, headers, status }) => {
      if (status === undefined) throw new Error(`${method} ${path} was never answered`);
      const contentType = headers["content-type"];
      return {
        method,
        path,
        status,
        ...(body === "" ? {} : { body: await freshBody(method, path, body, cluster) }),
        ...(typeof contentType === "string" ? { contentType } : {}),
      };
    }),
  );
}

async function freshBody(method: string, path: string, body: string, cluster: TestCluster): Promise<string> {
  if (method !== "PUT" && method !== "DELETE") return body;
  const parsed = parseLossless(body);
  if (!isBody(parsed)) throw new Error(`${method} ${path}: the body is no object: ${body}`);
  const current = (await cluster.api("GET", path)).body;
  if (!isBody(current) || current.metadata === undefined) throw new Error(`${method} ${path}: there is no such object`);
  const { uid, resourceVersion } = current.metadata;
  for (const claim of [parsed.metadata, parsed.preconditions]) {
    if (claim?.uid !== undefined) claim.uid = uid;
    if (claim?.resourceVersion !== undefined) claim.resourceVersion = resourceVersion;
  }
  return printLossless(parsed);
}

function isBody(value: unknown): value is Body {
  return typeof value === "object" && value !== null;
}
