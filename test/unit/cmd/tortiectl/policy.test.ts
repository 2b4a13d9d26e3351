/** `tortiectl policy` at an API whose answers the test gives: names of every length, and text that would act on a terminal. */
import { createServer, type Server } from "node:http";
import { join } from "node:path";
import { tortiectl } from "../../../../cmd/tortiectl/main.ts";
import { parsePort } from "../../../../cmd/tortiectl/policy/explain.ts";
import { harmless, NO_COLORS } from "../../../../cmd/tortiectl/terminal.ts";
import { shared, TemporaryDirectory } from "../../../support/fixtures.ts";

const directory = shared(() => new TemporaryDirectory());
const socket = () => join(directory.path, "tortie.sock");
let answer: { readonly status: number; readonly body: string } = { status: 200, body: "" };
let asked = "";
let server: Server;

beforeAll(async () => {
  server = createServer((request, response) => {
    asked = request.url ?? "";
    response.writeHead(answer.status).end(answer.body);
  });
  await new Promise<void>((done) => server.listen(socket(), done));
});
afterAll(() => void server.close());

/** Runs a command as a process would print it. */
async function run(argv: readonly string[], body: unknown, status = 200) {
  answer = { status, body: typeof body === "string" ? body : JSON.stringify(body) };
  const [out, err]: [string[], string[]] = [[], []];
  const terminal = {
    out: (line: string) => void out.push(harmless(line)),
    err: (line: string) => void err.push(harmless(line)),
    colors: NO_COLORS,
  };
  const exit = await tortiectl(["policy", ...argv, "--socket", socket()], terminal);
  return { exit, out, err };
}

const LONG = `${"n".repeat(63)}/${"p".repeat(253)}`;
const HOSTILE = "evil\u001b[2J\u009b31m\nsecond line";
const drop = (change: object = {}) => ({
  time: "2026-01-02T03:04:05.678Z",
  "host-interface": "caliweb",
  pod: "shop/web",
  direction: "ingress",
  reason: "denied",
  source: { address: "fd00::1", pod: "shop/db", port: 40_000 },
  destination: { address: "10.0.0.2", port: 8081 },
  protocol: "TCP",
  policies: ["shop/close"],
  explanation: "no rule of shop/close allows port 8081",
  ...change,
});
const counts = (dropped: number, shown: number) => [{ direction: "ingress", reason: "denied", dropped, shown }];

describe("tortiectl policy drops", () => {
  it("prints a line for each, with both ends, and what the kernel counted", async () => {
    const { exit, out, err } = await run(["drops", "shop/web"], { drops: [drop()], counts: counts(1, 1), missed: 0 });
    expect([exit, asked]).toEqual([0, "/v1/policy/drops?endpoint=shop%2Fweb"]);
    expect(out).toEqual([
      "2026-01-02T03:04:05.678Z  shop/web  ingress denied  TCP shop/db ([fd00::1]:40000) to 10.0.0.2:8081  no rule of shop/close allows port 8081",
    ]);
    expect(err).toEqual(["dropped on this node since its packet filter was made: ingress denied 1"]);
    const more = await run(["drops"], { drops: [], counts: counts(5, 1), missed: 0 });
    expect(more.err).toEqual([
      "no packet of those that are remembered was dropped",
      "dropped on this node since its packet filter was made: ingress denied 5; the kernel tells of some of them only",
    ]);
  });

  it("keeps names of 253 characters whole, and text that would act on the terminal on its line", async () => {
    const long = drop({ pod: LONG, source: { address: "10.0.0.1", pod: LONG, port: 1 } });
    const hostile = drop({ pod: undefined, explanation: HOSTILE });
    const { out } = await run(["drops"], { drops: [long, hostile], counts: [], missed: 0 });
    expect(out[0]?.split(LONG)).toHaveLength(3);
    expect(out).toHaveLength(2);
    expect(out[1]).toContain("  caliweb  ingress denied  ");
    expect(out[1]).toMatch(/ evil\\u001b\[2J\\u009b31m\\u000asecond line$/);
  });

  it("follows lines that come, and says what a slow reader missed", async () => {
    const lines = ["", JSON.stringify(drop()), JSON.stringify({ missed: 9 }), ""].join("\n");
    const { exit, out, err } = await run(["drops", "-f"], lines);
    expect(out).toHaveLength(1);
    expect(err[0]).toBe("9 more were dropped meanwhile: this reader is too slow for them");
    expect([exit, err[1]]).toEqual([1, expect.stringContaining("has ended")]);
    const json = await run(["drops", "-f", "--json"], lines);
    expect(json.out.slice(0, 2).map((line) => JSON.parse(line))).toEqual([drop(), { missed: 9 }]);
    expect((await run(["drops", "-f"], '{"other":1}\n')).err[0]).toContain("no agent of this version");
  });
});

const side = {
  workload: "shop/web",
  direction: "ingress",
  verdict: "deny",
  policies: ["shop/close"],
  peer: "shop/db",
  "peer-class": "0123456789ab",
};
const explanation = (change: object = {}) => ({
  from: { pod: "shop/db", "host-interface": "calidb", addresses: ["10.0.0.1"] },
  to: { addresses: ["203.0.113.7"], identity: 4711 },
  protocol: "TCP",
  port: 80,
  verdicts: [{ family: "ipv4", source: "10.0.0.1", destination: "203.0.113.7", verdict: "deny", notes: [], ...change }],
});

describe("tortiectl policy explain", () => {
  it("says both ends, each side's word with its reason, and what is left out", async () => {
    const decided = { ...side, reason: "rule 2 denies it", "decided-by": { policy: "shop/close", direction: "ingress", rule: 2 } };
    const { exit, out } = await run(["explain", "db", "203.0.113.7", "80"], explanation({ ingress: decided, notes: ["a note"] }));
    expect([exit, asked]).toEqual([1, "/v1/policy/explain?from=db&to=203.0.113.7&protocol=TCP&port=80"]);
    expect(out).toEqual([
      "from  shop/db (calidb, 10.0.0.1)",
      "to    203.0.113.7 (identity 4711)",
      "denied  TCP port 80, 10.0.0.1 to 203.0.113.7",
      "  ingress  denies  rule 2 denies it",
      "    shop/web; selected by shop/close; rule 2 of ingress in shop/close; from shop/db, class 0123456789ab",
      "  note     a note",
    ]);
    const open = { ...side, verdict: "allow", policies: [], reason: "no policy selects it" };
    const allowed = await run(["explain", "db", "203.0.113.7", "80"], explanation({ verdict: "allow", ingress: open }));
    expect([allowed.exit, allowed.out[2]]).toEqual([0, "allowed  TCP port 80, 10.0.0.1 to 203.0.113.7"]);
  });

  it.each([
    ["80", { protocol: "TCP", port: 80 }],
    ["53/udp", { protocol: "UDP", port: 53 }],
    ["9/SCTP", { protocol: "SCTP", port: 9 }],
    ["0", { protocol: "TCP", port: 0 }],
    ["ICMP", { protocol: "ICMP" }],
    ["http", { protocol: "TCP", "port-name": "http" }],
    ["dns-2/udp", { protocol: "UDP", "port-name": "dns-2" }],
  ] as const)("reads %s as a port", (given, expected) => {
    expect(parsePort(given)).toEqual(expected);
  });

  it.each(["", "Http", "70000", "80/", "80/icmp", "-1", "80 ", "a--b", "http/", "a".repeat(16)])("does not read %j as a port", (given) => {
    expect(() => parsePort(given)).toThrow(/^PORT /);
  });
});

describe("tortiectl policy list", () => {
  it("names what is invalid, what waits, what nobody enforces and whose an address is not", async () => {
    const policy = (change: object) => ({
      ...{ namespace: "shop", name: "close", uid: "7", "resource-version": "41", directions: ["ingress", "egress"] },
      ...{ endpoints: [{ "host-interface": "caliweb" }], realised: true, pending: [], ...change },
    });
    const { exit, out } = await run(["list"], {
      enforcement: "never",
      gaps: ["namespaces have not been read"],
      unread: [{ kind: "AdminNetworkPolicy", "at-least": 3 }],
      conflicts: [{ address: "10.0.0.9", pods: ["a/x", "b/y"] }],
      policies: [
        policy({}),
        policy({ name: "bad", problem: HOSTILE, realised: false }),
        policy({ name: "late", realised: false, pending: [{ "host-interface": "caliweb", reason: "a pass is under way" }] }),
      ],
    });
    expect(exit).toBe(0);
    expect(out).toEqual([
      "POLICY      DIRECTIONS      ENDPOINTS  STATE",
      "shop/close  ingress,egress  1          in force",
      "shop/bad    ingress,egress  1          invalid",
      "shop/late   ingress,egress  1          pending for 1",
      "invalid  shop/bad closes what it selects and opens nothing: evil\\u001b[2J\\u009b31m\\u000asecond line",
      "pending  shop/late for caliweb: a pass is under way",
      "gap  namespaces have not been read",
      "conflict  10.0.0.9 is claimed by a/x and b/y",
      "not enforced  AdminNetworkPolicy: at least 3",
      "enforcement never  nothing is dropped, whatever the policies say",
    ]);
  });
});

describe("tortiectl policy, refused", () => {
  const refusal = { code: 999, word: "policy-off", msg: "policy is off", details: "policy-off: start it" };

  it("says the agent's words, as text and as JSON", async () => {
    expect(await run(["list"], refusal, 409)).toEqual({ exit: 1, out: [], err: ["tortiectl: policy is off", "  policy-off: start it"] });
    const json = await run(["drops", "-f", "--json"], refusal, 409);
    expect(JSON.parse(json.out[0] ?? "")).toEqual({ error: { word: "policy-off", message: "policy is off", next: "start it" } });
  });
});
