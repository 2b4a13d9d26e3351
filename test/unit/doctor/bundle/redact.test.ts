import { HIDDEN, Redaction } from "../../../../doctor/bundle/redact.ts";
import { Secrets } from "../../../../lib/log/secrets.ts";

const LINES = [
  "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
  "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu",
];
const BEGIN = "-----BEGIN RSA PRIVATE KEY-----";
const END = "-----END RSA PRIVATE KEY-----";

function hidden(text: string): string {
  return new Redaction(new Secrets()).text(text);
}

describe("a text of a bug report", () => {
  it.each([
    ["a whole key", `a\n${[BEGIN, ...LINES, END].join("\n")}\nz`, `a\n${HIDDEN}\nz`],
    ["a key whose end is missing", `a\n${[BEGIN, ...LINES].join("\n")}\n`, `a\n${HIDDEN}`],
    ["a key whose beginning is missing", `${[...LINES, END].join("\n")}\nz`, `${HIDDEN}\nz`],
    ["two keys, the first without its end", `${[BEGIN, ...LINES, BEGIN, ...LINES, END].join("\n")}\nz`, `${HIDDEN}${HIDDEN}\nz`],
    ["a key in JSON", JSON.stringify({ x: [BEGIN, ...LINES, END].join("\n"), y: 1 }), `{"x":"${HIDDEN}","y":1}`],
    ["a key in base64", `x ${Buffer.from(BEGIN + LINES[0]).toString("base64")} y`, `x ${HIDDEN} y`],
    ["a bearer token", "Authorization: Bearer abcdefghij.klm", /^(?!.*klm)/],
    ["a token by its form", "got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln here", `got ${HIDDEN} here`],
    ["a password in a URL", "see https://me:pass@host/x?y", `see https://${HIDDEN}@host/x?y`],
    ["a value by its name", "--password=abc def token: 'a b' next", `--password=${HIDDEN} def token: '${HIDDEN}' next`],
    [
      "a value by its name in escaped JSON",
      '{\\"k8s_auth_token\\": \\"abc\\", \\"mtu\\": 0}',
      `{\\"k8s_auth_token\\": \\"${HIDDEN}\\", \\"mtu\\": 0}`,
    ],
  ])("hides %s", (_name, text, shown) => {
    if (shown instanceof RegExp) expect(hidden(text)).toMatch(shown);
    else expect(hidden(text)).toBe(shown);
  });

  it.each([
    '2030-01-01T10:00:00.000Z info ADD done container=c1 interface=eth0 steps_ms="ipam=1.0"',
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    '"automountServiceAccountToken": ',
    "ip route 10.244.0.0/26 via 192.0.2.1 dev vxlan.calico",
  ])("leaves %j alone", (text) => {
    expect(hidden(text)).toBe(text);
  });
});

it("hides by the names of members, whole environments and what a Secret holds, and keeps what only tells a place", () => {
  const redaction = new Redaction(new Secrets("known-secret-1"));
  const object = {
    env: [
      { name: "A", value: "b" },
      { name: "B", valueFrom: { secretKeyRef: { name: "s", key: "password" } } },
    ],
    secretName: "web-tls",
    tokenExpirationSeconds: 600,
    automountServiceAccountToken: false,
    password: "hunter22",
    list: { kind: "Secret", data: { a: "YQ==" }, stringData: { b: "c" } },
    note: "it was known-secret-1",
  };
  const shown = JSON.parse(redaction.json(object));
  expect(shown).toEqual({
    ...object,
    env: [
      { name: "A", value: HIDDEN },
      { name: "B", valueFrom: { secretKeyRef: { name: "s", key: "password" } } },
    ],
    password: HIDDEN,
    list: { kind: "Secret", data: HIDDEN },
    note: `it was ${HIDDEN}`,
  });
  expect(Object.fromEntries(redaction.counts)).toEqual({ environment: 1, "value by its name": 1, Secret: 1, "secret of this host": 1 });
});
