/** What an API server, or something before it, may answer: nothing of it throws what has no word, is taken for something else, or betrays a secret. */
import { asDatastoreError } from "../../../lib/datastore/kubernetes/resource-api.ts";
import { ApiError } from "../../../lib/kubernetes/api-client.ts";
import { problemOfAnswer, statusError } from "../../../lib/kubernetes/client/answers.ts";
import { retryAfterOf } from "../../../lib/kubernetes/client/limits.ts";
import { isNamed } from "../../../lib/kubernetes/client/tls.ts";
import { Secrets } from "../../../lib/log/secrets.ts";
import { corpus, fuzz } from "./fuzz.ts";
import { mutateText } from "./mutate.ts";

const POD = { method: "GET", path: "/api/v1/namespaces/b/pods/a" } as const;
const POOLS = { method: "GET", path: "/apis/crd.projectcalico.org/v1/ippools?limit=500" } as const;
const TOKEN = `eyJhbGciOiJSUzI1NiJ9.${btoa("system:serviceaccount:kube-system:calico-cni-plugin").replace(/=/g, "")}.c2lnbmF0dXJlLXNpZ25hdHVyZQ`;

const itself = <T>(answer: T): T => answer;

describe("Fuzzing: whatever a server answers,", () => {
  it("a refusal becomes an error of the datastore, with texts where texts belong", () => {
    const statuses = [0, 204, 301, 400, 401, 403, 404, 409, 410, 422, 429, 500, 503];
    const run = (body: string): void => {
      for (const status of statuses) {
        const answer = { status, contentType: "application/json", retryAfter: "", body };
        const error = statusError("GET /a", answer, false);
        expect(error).toBeInstanceOf(ApiError);
        const { explanation, reason, causes } = error;
        for (const text of [explanation, reason, ...causes.flatMap(Object.values)]) expect(typeof text).toBe("string");
        expect(asDatastoreError(error, "Pod(b/a)").message).not.toBe("");
        expect(retryAfterOf(answer) ?? 0).toBeGreaterThanOrEqual(0);
      }
    };
    fuzz({ inputs: corpus<string>("answer"), mutate: mutateText, answers: [], run, count: 2_000 });
  });

  it("what is taken for the object that was asked for has its kind, its namespace and its name", () => {
    const run = (body: string): void => {
      const object = objectOf(body);
      const answer = { status: 200, contentType: "application/json", retryAfter: "", body };
      if (object !== undefined && problemOfAnswer(POD, answer, itself) === undefined) {
        expect(object).toMatchObject({ kind: expect.stringMatching(/^pod$/i), apiVersion: "v1", metadata: { name: "a", namespace: "b" } });
      }
      if (object !== undefined && problemOfAnswer(POOLS, answer, itself) === undefined) {
        expect(object).toMatchObject({ kind: expect.stringMatching(/^ippoolList$/i), apiVersion: "crd.projectcalico.org/v1" });
      }
    };
    fuzz({ inputs: corpus<string>("answer"), mutate: mutateText, answers: [], run, count: 10_000 });
  });

  it("a certificate is for a server only when one of its names is the server's, letter by letter", () => {
    const run = (names: string): void => {
      const list = names.toLowerCase().split(", ");
      if (isNamed("kubernetes.default.svc", names)) {
        expect(list.some((name) => ["dns:kubernetes.default.svc", "dns:*.default.svc"].includes(name))).toBe(true);
      }
      if (isNamed("10.96.0.1", names)) expect(list.some((name) => name.startsWith("ip address:"))).toBe(true);
    };
    fuzz({ inputs: corpus<string>("server-names"), mutate: mutateText, answers: [], run, count: 20_000 });
  });

  it("no long part of a secret is left in what is shown of it", () => {
    const secrets = new Secrets(TOKEN);
    const letters = TOKEN.replace(/[^A-Za-z0-9]/g, "").toLowerCase();
    const parts = Array.from({ length: letters.length - 23 }, (_, at) => letters.slice(at, at + 24));
    const inputs = corpus<string>("answer").map((text) => `${text} authorization: Bearer ${TOKEN}\r\nnext`);
    const run = (text: string): void => {
      const shown = secrets
        .redact(text)
        .replace(/\[hidden\]/g, "|")
        .replace(/[^A-Za-z0-9|]/g, "")
        .toLowerCase();
      for (const part of parts) expect(shown.includes(part)).toBe(false);
    };
    fuzz({ inputs, mutate: mutateText, answers: [], run, count: 2_000 });
  });
});

function objectOf(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
