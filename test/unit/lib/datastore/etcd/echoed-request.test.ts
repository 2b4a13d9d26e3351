/** A member, or something before it, that repeats the request in its answer: nobody reads the password, the token or the key there. */
import { etcdDatastore } from "../../../../../lib/datastore/etcd/etcd-datastore.ts";
import { everythingSaidOf, expectNothingOf } from "../../../../support/echoed-secrets.ts";
import { settingsOf } from "../../../../support/etcd/no-etcd.ts";
import { type Answering, type Reply, TlsServer } from "../../../../support/tls-server.ts";

const PASSWORD = "correct-horse-battery-staple";
const TOKEN = "KFLqwTzUaPqvNkdB.1234567";
const REVISION = { header: { revision: "5" } };

/** What the member does with a request, whose secrets are those in `sent`. */
type Echo = (sent: string) => Reply;

const gateway = (code: number, message: string) => JSON.stringify({ error: message, code, message, details: [] });
const FORMS: readonly (readonly [string, Echo])[] = [
  ["in etcd's own words", (sent) => ({ status: 400, body: gateway(3, `etcdserver: what is ${sent}`) })],
  ["in etcd's own words, as one that must authenticate", (sent) => ({ status: 401, body: gateway(16, `invalid auth token: ${sent}`) })],
  ["in etcd's own words, for a moment", (sent) => ({ status: 503, body: gateway(14, `try later: ${sent}`) })],
  ["in a long text", (sent) => ({ status: 400, body: gateway(3, `${"x".repeat(190)}${sent}${"y".repeat(10_000)}`) })],
  ["as a page", (sent) => ({ status: 502, body: `<html><pre>${sent}</pre></html>` })],
  ["as a page, where the quotation ends", (sent) => ({ status: 403, body: `${"x".repeat(190)}${sent}` })],
  ["in base64", (sent) => ({ status: 403, body: btoa(sent) })],
  ["as JSON that is none", (sent) => ({ status: 200, body: sent.replace(/[^A-Za-z]/g, "") })],
  ["as JSON of another shape", (sent) => ({ status: 200, body: JSON.stringify({ header: { revision: sent } }) })],
  [
    "as a key that nobody asked for",
    (sent) => ({ status: 200, body: JSON.stringify({ ...REVISION, kvs: [{ key: btoa(sent), mod_revision: "1" }] }) }),
  ],
  ["in a header", (sent) => ({ status: 200, body: "{}", headers: { "Content-Encoding": sent.replace(/[^A-Za-z0-9.-]/g, "") } })],
];

/** What is said of a read that fails so. */
async function said(answer: Answering): Promise<string> {
  using server = new TlsServer(answer, { keyPair: undefined });
  const settings = settingsOf(`http://127.0.0.1:${server.port}`, { ETCD_USERNAME: "plugins", ETCD_PASSWORD: PASSWORD });
  await using datastore = etcdDatastore(settings, { limits: { request: 300, least: 300, firstPause: 1, longestPause: 1 } });
  return datastore.handles.get("net.c1").then(() => "there was no failure", everythingSaidOf);
}

describe.each(FORMS)("A refusal that repeats the request %s", (_, echo) => {
  it("is told without the password, when it refuses the user", async () => {
    const text = await said(({ body }) => echo(body));
    expect(text).toContain("/calico/ipam/v2/handle/net.c1");
    expect(text).not.toContain("there was no failure");
    expectNothingOf(PASSWORD, text);
  });

  it("is told without the token, when it refuses a request", async () => {
    const text = await said(({ target, headers, body }) =>
      target === "/v3/auth/authenticate"
        ? { status: 200, body: JSON.stringify({ ...REVISION, token: TOKEN }) }
        : echo(`Authorization: ${headers.authorization} ${body}`),
    );
    expect(text).toContain("/calico/ipam/v2/handle/net.c1");
    expect(text).not.toContain("there was no failure");
    expectNothingOf(TOKEN, text);
    expect(text.length).toBeLessThan(20_000);
  });
});
