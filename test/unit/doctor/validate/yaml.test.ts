/** `tortiectl validate` on YAML: line and column of what it finds, and what YAML has beyond JSON. */
import { validateText } from "../../../../doctor/validate/validate.ts";

const validate = (text: string) => validateText("x.yaml", text, "");
const places = async (text: string) => (await validate(text)).map(({ line, column, path }) => `${line}:${column} ${path}`);
const head = "apiVersion: crd.projectcalico.org/v1\n";
const pool = `${head}kind: IPPool\nmetadata: {name: a}\n`;
const reservation = `${head}kind: IPReservation\nmetadata: {name: a}\n`;

describe("A finding in YAML stands at", () => {
  it.each([
    ["the key", `${pool}spec:\n  cidr: 10.0.0.1/16\n`, ["5:3 spec.cidr"]],
    ["the key, in braces", `${pool}spec: {cidr: 10.0.0.0/16, 'disabled': "no"}\n`, ["4:27 spec.disabled"]],
    [
      "the key, behind JSON's brackets",
      `{"apiVersion": "crd.projectcalico.org/v1",\n "kind": "IPPool",\n "spec": {"cidr": 7}}`,
      ["3:11 spec.cidr"],
    ],
    [
      "each of several keys",
      `${pool}spec:\n  blocksize: 26\n  cidr: 10.0.0.0/16\n  dissabled: true\n`,
      ["5:3 spec.blocksize", "7:3 spec.dissabled"],
    ],
    ["the element of a list", `${reservation}spec:\n  reservedCIDRs:\n  - 10.0.0.9\n  - nowhere\n`, ["7:5 spec.reservedCIDRs[1]"]],
    ["the object that lacks a key", `${pool}spec:\n  blockSize: 26\n`, ["4:1 spec"]],
    ["the key, behind Windows' ends of lines", `${pool}spec:\n  cidr: 7\n`.replaceAll("\n", "\r\n"), ["5:3 spec.cidr"]],
    [
      "the key of a document that contains what looks like a marker",
      `apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations:\n    text: |\n      x\n      ---\n    cni.projectcalico.org/hwAddr: x\n`,
      ['9:5 metadata.annotations["cni.projectcalico.org/hwAddr"]'],
    ],
    ["the key that a merge takes over", `defaults: &d\n  cidr: 7\n${pool}spec:\n  <<: *d\n`, ["2:3 spec.cidr"]],
    [
      "the key that a list of merges takes over",
      `one: &a {natOutgoing: true}\ntwo: &b {cidr: 7}\n${pool}spec:\n  <<: [*a, *b]\n`,
      ["2:10 spec.cidr"],
    ],
    ["the key whose value is an alias", `bad: &b 7\n${pool}spec:\n  cidr: *b\n`, ["6:3 spec.cidr"]],
    ["the key inside of what an alias stands for", `wrong: &w\n  cidr: 7\n${pool}spec: *w\n`, ["2:3 spec.cidr"]],
  ])("%s", async (_what, text, expected) => {
    expect(await places(text)).toEqual(expected);
  });

  it("the key of a network configuration, whose plugins are known by their place in the list", async () => {
    const text =
      "cniVersion: 1.0.0\nname: pods\nplugins:\n- type: tortie\n  ipam:\n    type: tortie-ipam\n    ipv4_pool: []\n  mtu: large\n";

    expect(await places(text)).toEqual(["7:5 plugins[0].ipam.ipv4_pool", "8:3 plugins[0].mtu"]);
  });
});

describe("YAML that cannot be read", () => {
  it.each([
    ["a bracket that is not closed", `${pool}spec: [\n`, "5:1", /end with a \]/],
    ["a tab for indentation", `${pool}spec:\n\tcidr: 10.0.0.0/16\n`, "5:1", /[Tt]abs/],
    ["a mapping inside of a line", "a: b: c\n", "1:4", /Nested mappings/],
    ["a key that stands twice", `${pool}spec:\n  cidr: 10.0.0.0/16\n  cidr: 10.1.0.0/16\n`, "6:3", /unique/],
    ["an alias without an anchor", `${pool}spec: *nobody\n`, "4:7", /\*nobody has no anchor/],
    ["an alias inside of its own anchor", `${pool}spec: &s\n  a: *s\n`, "5:6", /\*s stands inside of its own anchor/],
    ["quotes that are not closed", `${pool}spec: {cidr: "10\n`, "5:1", /quote/],
  ])("%s is named with its place", async (_what, text, place, problem) => {
    const found = await validate(text);

    expect(found.map(({ line, column, code }) => `${line}:${column} ${code}`)).toEqual([`${place} document-unreadable`]);
    expect(found[0]?.message).toMatch(problem);
  });

  it("aliases that multiply are refused at once", async () => {
    const levels = Array.from({ length: 12 }, (_, level) => `a${level + 1}: &a${level + 1} [${Array(9).fill(`*a${level}`).join(", ")}]\n`);

    expect(await validate(`a0: &a0 [x]\n${levels.join("")}`)).toEqual([
      expect.objectContaining({ code: "document-unreadable", line: 1, column: 1, message: expect.stringMatching(/alias count/) }),
    ]);
  });

  it("does not keep the documents around it from being judged", async () => {
    const text = `${pool}spec: {cidr: 7}\n---\na: ]\n---\n# nothing\n---\n${pool}spec: {cidr: 8}\n`;

    expect((await validate(text)).map(({ document, line, column, code }) => `${document} ${line}:${column} ${code}`)).toEqual([
      "1 4:8 datastore-object-invalid",
      "2 6:4 document-unreadable",
      "3 13:8 datastore-object-invalid",
    ]);
  });
});

describe("YAML is read as kubectl reads it", () => {
  it("yes and off are booleans, days and times are text", async () => {
    expect(await places(`${pool}spec: {cidr: 10.0.0.0/16, disabled: yes, natOutgoing: off}\n`)).toEqual([]);
    expect(await validate(`${pool}spec: {cidr: 2026-11-23}\n`)).toEqual([
      expect.objectContaining({ message: expect.stringContaining('"2026-11-23"') }),
    ]);
  });

  it("a file of comments and empty documents holds none", async () => {
    expect(await validate("# nothing\n---\n---\n# here\n...\n")).toEqual([
      expect.objectContaining({ code: "document-unreadable", message: "there is no document in it" }),
    ]);
  });
});
