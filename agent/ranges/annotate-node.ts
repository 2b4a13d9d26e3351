/** Annotations of a Node object, merged into those that it has. */
import { statusError } from "../../lib/kubernetes/client/answers.ts";
import type { ApiConnection } from "../../lib/kubernetes/client/connection.ts";

/** @param annotations `null` removes one @throws ApiError; TransportError */
export async function annotateNode(
  connection: Pick<ApiConnection, "exchange" | "redact">,
  name: string,
  annotations: Readonly<Record<string, string | null>>,
): Promise<void> {
  // The status sub-resource takes metadata as well, so that the role needs no right to change nodes.
  const path = `/api/v1/nodes/${encodeURIComponent(name)}/status`;
  const answer = await connection.exchange({
    method: "PATCH",
    path,
    body: JSON.stringify({ metadata: { annotations } }),
    contentType: "application/merge-patch+json",
  });
  if (answer.status >= 300) throw statusError(`patch ${path}`, { ...answer, body: connection.redact(answer.body) }, false);
}
