/**
 * The least that an operation on an API server can cost: start, open one connection, make the given requests one after the other, end.
 * Compiled with the flags of the plugins (scripts/bench). It knows nothing; what it is told on standard input it does.
 */

/** Standard input. */
export interface FloorPlan {
  readonly server: string;
  /** PEM. */
  readonly ca: string;
  readonly token: string;
  readonly requests: readonly FloorRequest[];
}

export interface FloorRequest {
  readonly method: string;
  readonly path: string;
  readonly contentType?: string | undefined;
  readonly body?: string | undefined;
  /** Any other answer is a failure: what fails has no time worth reporting. */
  readonly status: number;
}

const { server, ca, token, requests }: FloorPlan = JSON.parse(await Bun.stdin.text());
for (const { method, path, contentType, body, status } of requests) {
  const headers: Record<string, string> = { Authorization: `Bearer ${token}`, Accept: "application/json" };
  if (contentType !== undefined) headers["Content-Type"] = contentType;
  const answer = await fetch(server + path, { method, headers, tls: { ca }, ...(body === undefined ? {} : { body }) });
  const text = await answer.text();
  if (answer.status !== status) throw new Error(`${method} ${path}: ${answer.status} instead of ${status}: ${text}`);
}
process.exit(0);
