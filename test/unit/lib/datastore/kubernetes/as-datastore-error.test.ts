import { asDatastoreError } from "../../../../../lib/datastore/kubernetes/resource-api.ts";
import { ApiError, type ApiErrorCause } from "../../../../../lib/kubernetes/api-client.ts";
import { statusError } from "../../../../../lib/kubernetes/client/answers.ts";

const cause = (field: string): ApiErrorCause => ({ reason: "FieldValueInvalid", field, message: "field is immutable" });

function failed(status: number, reason: string, message: string, causes: readonly ApiErrorCause[] = [], identity = ""): ApiError {
  const body = JSON.stringify({ kind: "Status", apiVersion: "v1", status: "Failure", message, reason, code: status, details: { causes } });
  return statusError("GET https://s:443/x", { status, contentType: "application/json", retryAfter: "", body }, false, identity);
}

/** Names an error in a title, where its stack would stand otherwise. */
function named([error, expected]: readonly [ApiError, string]): [title: string, error: ApiError, expected: string] {
  const fields = error.causes.map(({ field }) => field).join(" and ");
  return [`${error.status} ${error.message}${fields === "" ? "" : ` (${fields})`}`, error, expected];
}

const FAILURES: readonly (readonly [ApiError, string])[] = [
  [failed(404, "NotFound", 'ipamblocks "a" not found'), "not-found"],
  [failed(404, "", "the server could not find the requested resource"), "not-found"],
  [failed(409, "AlreadyExists", 'ipamblocks "a" already exists'), "already-exists"],
  [failed(409, "Conflict", "the object has been modified"), "conflict"],
  [failed(409, "Conflict", 'Precondition failed: UID in precondition: "u", UID in object meta: "v"'), "not-found"],
  [failed(409, "Conflict", "the ResourceVersion in the precondition (5) does not match (6)"), "conflict"],
  [failed(401, "Unauthorized", "Unauthorized"), "unauthorized"],
  [failed(403, "Forbidden", "pods is forbidden"), "unauthorized"],
  [failed(422, "Invalid", "is invalid", [cause("metadata.uid")]), "not-found"],
  [failed(422, "Invalid", "is invalid", [cause("metadata.resourceVersion")]), "conflict"],
  [failed(422, "Invalid", "is invalid", [cause("metadata.uid"), cause("spec.cidr")]), "invalid"],
  [failed(422, "Invalid", "is invalid", [cause("spec.cidr")]), "invalid"],
  [failed(422, "Invalid", "is invalid"), "invalid"],
  [failed(400, "BadRequest", "cannot be handled"), "invalid"],
  [failed(413, "RequestEntityTooLarge", "limit is 3145728"), "invalid"],
  [failed(429, "TooManyRequests", "try later"), "unavailable"],
  [failed(500, "InternalError", "etcdserver: leader changed"), "unavailable"],
  [failed(503, "ServiceUnavailable", "shutting down"), "unavailable"],
  [new ApiError("GET https://s:443/x: connection refused"), "unavailable"],
];

const MESSAGES: readonly (readonly [ApiError, string])[] = [
  [failed(404, "NotFound", 'ipamblocks "a" not found'), 'resource does not exist: IPAMBlock(a) with error: ipamblocks "a" not found'],
  [
    failed(401, "Unauthorized", "Unauthorized"),
    "connection is unauthorized: Unauthorized (IPAMBlock(a); the API server does not know these credentials: renew the token or certificate)",
  ],
  [
    failed(401, "Unauthorized", "Unauthorized", [], 'user "calico" of /etc/cni/net.d/calico-kubeconfig'),
    'connection is unauthorized: Unauthorized (IPAMBlock(a); the API server does not know user "calico" of /etc/cni/net.d/calico-kubeconfig: renew the token or certificate)',
  ],
  [
    failed(
      403,
      "Forbidden",
      'pods "p" is forbidden: User "system:serviceaccount:kube-system:cni" cannot patch resource "pods/status" in API group "" in the namespace "n"',
    ),
    'connection is unauthorized: pods "p" is forbidden: User "system:serviceaccount:kube-system:cni" cannot patch resource "pods/status" in API group "" in the namespace "n" (IPAMBlock(a); grant user "system:serviceaccount:kube-system:cni" the verb patch on pods/status in API group "")',
  ],
  [
    new ApiError("GET https://s:443/x: dial tcp s port 443: connect: connection refused"),
    "IPAMBlock(a): GET https://s:443/x: dial tcp s port 443: connect: connection refused",
  ],
];

describe("asDatastoreError (C§7.6)", () => {
  it.each(FAILURES.map(named))("of %s", (_title, error, failure) => {
    expect(asDatastoreError(error, "IPAMBlock(a)")).toMatchObject({
      name: "DatastoreError",
      failure,
      cause: error,
      message: expect.stringContaining("IPAMBlock(a)"),
    });
  });

  it.each(MESSAGES.map(named))("says what is wrong and what to do: %s", (_title, error, message) => {
    expect(asDatastoreError(error, "IPAMBlock(a)").message).toBe(message);
  });
});

describe("statusError", () => {
  it("repeats the beginning of an answer that is no Status object", () => {
    const answer = { status: 502, contentType: "text/html", retryAfter: "", body: `<html>\n  <h1>Bad gateway</h1>${"x".repeat(1000)}` };

    const error = statusError("GET https://s:443/x", answer, true);

    expect(error).toMatchObject({ status: 502, reason: "", causes: [], isRepetition: true });
    expect(error.message).toMatch(/^GET https:\/\/s:443\/x: the server answered with status 502 \(<html> <h1>Bad gateway<\/h1>x+\)$/);
    expect(error.message.length).toBeLessThan(250);
  });

  it("says of a path that no API serves what Kubernetes' own clients say (recording api-group-v3)", () => {
    const answer = { status: 404, contentType: "text/plain", retryAfter: "", body: "404 page not found\n" };

    expect(statusError("GET https://s:443/x", answer, false)).toMatchObject({
      status: 404,
      explanation: "the server could not find the requested resource (404 page not found)",
    });
  });

  it.each([
    "",
    "null",
    "[]",
    '{"kind":"Status"}',
    '{"kind":"Status","message":7,"reason":{},"details":[],"causes":1}',
    '{"kind":"Status","details":{"causes":[1,{"field":2}]}}',
  ])("takes whatever a broken server says: %s", (body) => {
    expect(statusError("GET /", { status: 500, contentType: "", retryAfter: "", body }, false)).toMatchObject({ status: 500, reason: "" });
  });
});
