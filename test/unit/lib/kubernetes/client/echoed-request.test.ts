/** Something between node and API server that repeats the request in its refusal, as firewalls for the web and debugging proxies do. */
import { authority, type ConfigChange, connect, serve } from "../../../../support/api-behind-tls.ts";
import { closing } from "../../../../support/closing.ts";
import { ConnectProxy } from "../../../../support/connect-proxy.ts";
import { everythingSaidOf, expectNothingOf } from "../../../../support/echoed-secrets.ts";
import type { Reply, SeenRequest } from "../../../../support/tls-server.ts";

const TOKEN = `eyJhbGciOiJSUzI1NiJ9.${btoa("system:serviceaccount:kube-system:calico-cni-plugin").replace(/=/g, "")}.c2lnbmF0dXJlLXNpZ25hdHVyZQ`;

const headLines = ({ method, target, headers }: SeenRequest) =>
  [`${method} ${target} HTTP/1.1`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)].join("\r\n");
const wrapped = (text: string, width: number, by: string) => (text.match(new RegExp(`.{1,${width}}`, "gs")) ?? []).join(by);
const statusObject = (message: string) =>
  JSON.stringify({
    kind: "Status",
    apiVersion: "v1",
    reason: "Forbidden",
    message,
    details: { causes: [{ reason: "x", field: message, message }] },
  });

const FORMS: readonly (readonly [string, string, (head: string, token: string) => string])[] = [
  ["as text", "text/plain", (head) => head],
  ["its token first", "text/plain", (_head, token) => token],
  ["as a page", "text/html", (head) => `<html><pre>${head}</pre></html>`],
  ["as a page with escapes", "text/html", (_head, token) => [...token].map((letter) => `&#${letter.charCodeAt(0)};`).join("")],
  ["as a page with tags in between", "text/html", (_head, token) => wrapped(token, 7, "<wbr>")],
  ["in lines", "text/plain", (head) => wrapped(head, 16, "\n")],
  ["in base64", "text/plain", (head) => btoa(head)],
  ["its token in base64", "text/plain", (_head, token) => btoa(token)],
  ["escaped as a URL", "text/plain", (_head, token) => [...token].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join("")],
  ["as a Status object", "application/json", (head) => statusObject(head)],
  ["as a Status object, in base64", "application/json", (head) => statusObject(btoa(head))],
  ["as other JSON", "application/json", (head) => JSON.stringify({ request: head })],
  ["in its type", "TOKEN", () => "x"],
];

describe("M5: a refusal that repeats the request", () => {
  const bearer: ConfigChange = { identity: { authorization: `Bearer ${TOKEN}` } };

  /** What is said of a request that is refused so. */
  async function said(reply: (request: SeenRequest) => Reply, path: string, change = bearer): Promise<string> {
    const client = connect(serve(reply), change, { firstPause: 1, longestPause: 1, repetitions: 1 });
    return client.request({ method: "GET", path }).then((answer) => `there was no failure but ${answer}`, everythingSaidOf);
  }

  describe.each([200, 302, 400, 401, 403, 407, 418, 500, 502])("with status %i", (status) => {
    it.each(FORMS)("(%s) is told without the token", async (_form, type, write) => {
      const reply = (request: SeenRequest): Reply => ({
        status,
        headers: { "Content-Type": type === "TOKEN" ? `text/${TOKEN}` : type, Location: `https://login.example/?token=${TOKEN}` },
        body: write(headLines(request), TOKEN),
      });

      const text = await said(reply, "/api/v1/namespaces/default/pods/a");

      expectNothingOf(TOKEN, text);
      expect(text).not.toMatch(/&#\d|%[0-9a-f]{2}%/);
      expect(text).toContain("/api/v1/namespaces/default/pods/a");
    });
  });

  it.each([401, 403, 407])("is not quoted at all with status %i, unless it is a Status object", async (status) => {
    const page = (): Reply => ({ status, headers: { "Content-Type": "text/html" }, body: "<html>who are you</html>" });
    const object = (): Reply => ({ status, body: JSON.stringify({ kind: "Status", message: "pods is forbidden" }) });

    expect(await said(page, "/a")).not.toContain("who are you");
    expect(await said(object, "/a")).toContain("pods is forbidden");
  });

  it("is told with what else it says", async () => {
    const reply = ({ headers }: SeenRequest): Reply => ({ status: 502, body: `no upstream\nyou sent ${headers.authorization}` });

    expect(await said(reply, "/a")).toContain("(no upstream you sent Bearer [hidden])");
  });

  it("is told without the password of the proxy and the key of the certificate, whoever knows them", async () => {
    const own = authority.issue("/CN=node", "DNS:node");
    const letters = own.key.replace(/-----[^-]+-----|\s/g, "");
    const reply = (): Reply => ({ status: 502, body: `proxy password s3cr3t-of-the-proxy\nkey ${letters.slice(40, 120)}` });
    const proxy = closing(await new ConnectProxy().start());
    const change = { proxy: `http://me:s3cr3t-of-the-proxy@127.0.0.1:${proxy.port}`, identity: { certificate: own } };

    const text = await said(reply, "/a", change);

    expect(text).toContain("[hidden]");
    expect(text).not.toContain("s3cr3t-of-the-proxy");
    expect(text).not.toContain(letters.slice(60, 80));
  });
});
