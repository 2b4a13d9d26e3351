import { Secrets } from "../../../../lib/log/secrets.ts";

/** As long, and made of the same characters, as the token of a service account. */
const TOKEN = `${btoa('{"alg":"RS256","kid":"x1"}').replace(/=/g, "")}.${btoa('{"iss":"https://kubernetes.default.svc.cluster.local","sub":"system:serviceaccount:kube-system:calico-cni-plugin"}').replace(/=/g, "")}.Zm9vYmFyYmF6LXF1dXg_Zm9vYmFyYmF6cXV1eA`;
const pieces = (size: number) => TOKEN.match(new RegExp(`.{1,${size}}`, "g")) ?? [];

describe("a secret", () => {
  const secrets = new Secrets(TOKEN);

  it("is hidden where it stands, and the rest of the text stays", () => {
    expect(secrets.redact(`before ${TOKEN} after`)).toBe("before [hidden] after");
  });

  it.each<[string, string]>([
    ["cut off", TOKEN.slice(0, 60)],
    ["the end of it", TOKEN.slice(-40)],
    ["in lines", pieces(64).join("\n")],
    ["in short lines", pieces(8).join("\r\n")],
    ["with spaces between its letters", pieces(1).join(" ")],
    ["with tags between", pieces(10).join("<wbr>")],
    ["in JSON strings", JSON.stringify(pieces(20))],
    ["escaped for a URL", [...TOKEN].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join("")],
    ["escaped for JSON", [...TOKEN].map((letter) => `\\u00${letter.charCodeAt(0).toString(16)}`).join("")],
    ["escaped for HTML", [...TOKEN].map((letter) => `&#${letter.charCodeAt(0)};`).join("")],
    ["escaped for HTML in hexadecimal digits", [...TOKEN].map((letter) => `&#x${letter.charCodeAt(0).toString(16)};`).join("")],
    ["in hexadecimal digits", Buffer.from(TOKEN).toString("hex").toUpperCase()],
    ["in base64", btoa(TOKEN)],
    ["in base64, with other text", btoa(`Authorization: Bearer ${TOKEN}\r\n`)],
    ["in base64, with other text, one byte on", btoa(`uthorization: Bearer ${TOKEN}\r\n`)],
    ["in base64, with other text, two bytes on", btoa(`thorization: Bearer ${TOKEN}\r\n`)],
    ["in base64 for URLs", Buffer.from(`x ${TOKEN}`).toString("base64url")],
    ["in capital letters", TOKEN.toUpperCase()],
  ])("hides the line that has it %s", (_how, text) => {
    const shown = secrets.redact(`first line\n<p value="${text}">\nlast line`);

    expect(shown).toContain("[hidden]");
    for (const part of text.match(/[^\s<>]{6,}/g) ?? [text]) expect(shown).not.toContain(part);
  });

  it("hides nothing else", () => {
    const text = `ADD failed: IPAMBlock(10-0-0-0-26): update conflict, eyJhbGciOiJub25lIn0, ${"0123456789abcdef".repeat(40)}\nanother line`;

    expect(secrets.redact(text)).toBe(text);
    expect(new Secrets().redact(text)).toBe(text);
  });

  it("is any bearer token, known or not", () => {
    expect(new Secrets().redact("authorization: bearer abcdefghijklmnop; next")).toBe("authorization: bearer [hidden]; next");
  });

  it("is not a text that is too short to be one, or none", () => {
    const few = new Secrets(undefined, "", "  ", "abc");

    expect(few.redact("abc  def")).toBe("abc  def");
  });

  it("is hidden in every form from when it is known on, whatever was asked before", () => {
    const learning = new Secrets("a-former-token-of-this-client");
    expect(learning.redact(btoa(TOKEN))).toBe(btoa(TOKEN));
    learning.add(TOKEN);
    expect(learning.redact(btoa(TOKEN))).toBe("[hidden]");
  });

  it("is hidden with the longer one of which it is a part", () => {
    expect(new Secrets("abcdef", "abcdefghijkl").redact("x abcdefghijkl")).toBe("x [hidden]");
  });
});

describe("secrets inside of other texts", () => {
  it("are the password and the credentials of a user", () => {
    const secrets = new Secrets();
    secrets.addAuthorization(`Basic ${btoa("me:pass-word")}`);

    expect(secrets.redact("pass-word")).toBe("[hidden]");
    expect(secrets.redact(`got ${btoa("me:pass-word")}`)).toBe("got [hidden]");
    expect(secrets.redact("me")).toBe("me");
  });

  it("are the password of a proxy, however it is written", () => {
    const secrets = new Secrets();
    secrets.addPasswordOf("http://me:p%40ss-word@proxy:3128");

    for (const text of ["p@ss-word", "p%40ss-word", btoa("me:p@ss-word")]) expect(secrets.redact(`x ${text}`)).not.toContain(text);
    expect(secrets.redact("http://proxy:3128 me")).toBe("http://proxy:3128 me");
    expect(() => secrets.addPasswordOf("no url")).not.toThrow();
    expect(() => secrets.addPasswordOf("http://a:%zz@b")).not.toThrow();
  });

  it("are the letters of a key", () => {
    const secrets = new Secrets();
    const lines = ["MHcCAQEEIKFvb2Jhcg0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL", "oAoGCCqGSM49AwEHoUQDQgAE0123"];
    secrets.addKey(`-----BEGIN EC PRIVATE KEY-----\n${lines.join("\n")}\n-----END EC PRIVATE KEY-----\n`);

    expect(secrets.redact(`a\n${lines[0]}\nb`)).toBe("a\n[hidden]\nb");
    expect(secrets.redact(lines.join("\\n"))).toBe("[hidden]");
    expect(secrets.redact("holds no PEM block: -----BEGIN EC PRIVATE KEY-----")).toBe("holds no PEM block: -----BEGIN EC PRIVATE KEY-----");
  });
});
