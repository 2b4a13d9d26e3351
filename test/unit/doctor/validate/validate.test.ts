/** `tortiectl validate`: what is found in texts, where, and that good ones are left alone. */
import { readdirSync, readFileSync } from "node:fs";
import { FINDING_CODES, type Finding, lineOf, suggestionFor } from "../../../../doctor/validate/finding.ts";
import { validateText } from "../../../../doctor/validate/validate.ts";

/** Without asking executables. */
const validate = (text: string, file = "x.conflist") => validateText(file, text, "");
const brief = ({ severity, code, path }: Finding) => [severity, code, path];

const plugin = (members: object) => ({ type: "calico", ipam: { type: "calico-ipam" }, ...members });
const list = (members: object, ...others: readonly object[]) =>
  JSON.stringify({ cniVersion: "1.0.0", name: "pods", plugins: [plugin(members), ...others] });
const object = (kind: string, spec: object, apiVersion = "crd.projectcalico.org/v1") =>
  JSON.stringify({ apiVersion, kind, metadata: { name: "one" }, spec });
const pod = (annotations: object) =>
  JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata: { name: "web", annotations }, spec: { containers: [] } });

describe("validate on a network configuration", () => {
  it("names file, line and column, and the key that was meant", async () => {
    const text = '{\n  "cniVersion": "1.0.0", "name": "pods",\n  "plugins": [{\n    "type": "tortie",\n    "mtuu": 1400 }]\n}';

    const [found, ...others] = await validate(text);

    expect(others).toEqual([]);
    expect(found).toEqual({
      file: "x.conflist",
      line: 5,
      column: 5,
      severity: "warning",
      code: "key-unknown",
      path: "plugins[0].mtuu",
      message: 'the key "mtuu" is not known, and ignored',
      suggestion: "mtu",
    });
    expect(found && lineOf(found)).toBe(
      'x.conflist:5:5: warning key-unknown plugins[0].mtuu: the key "mtuu" is not known, and ignored (did you mean mtu?)',
    );
  });

  it.each([
    ["two wrong types", list({ mtu: "1400", num_queues: 1.5 }), ["netconf-type plugins[0].mtu", "netconf-type plugins[0].num_queues"]],
    ["a wrong type inside", list({ ipam: { type: "calico-ipam", ipv4_pools: [1] } }), ["netconf-type plugins[0].ipam.ipv4_pools[0]"]],
    [
      "two wrong values",
      list({ agent: "on", device_type: "tun" }),
      ["netconf-value plugins[0].agent", "netconf-value plugins[0].device_type"],
    ],
    ["a datastore that does not exist", list({ datastore_type: "consul" }), ["netconf-value plugins[0].datastore_type"]],
    [
      "a local pool with host bits",
      list({ ipam: { type: "tortie-ipam", pools: [{ cidr: "10.0.0.1/16" }] } }),
      ["netconf-value plugins[0].ipam.pools[0].cidr"],
    ],
    ["a plugin without type", list({}, { capabilities: {} }), ["conflist-invalid plugins[1]"]],
    ["a version that nobody knows", '{"cniVersion":"9.9.9","name":"a","plugins":[{"type":"tortie"}]}', ["conflist-invalid cniVersion"]],
    ["no plugins", '{"cniVersion":"1.0.0","name":"a","plugins":[]}', ["conflist-invalid plugins"]],
    ["no name, in a single configuration", '{"cniVersion":"1.0.0","type":"tortie","mtu":{}}', ["conflist-invalid ", "netconf-type mtu"]],
    [
      "an IPAM section of ours under another plugin",
      list({ type: "bridge", ipam: { type: "tortie-ipam", pools: 1 } }),
      ["netconf-type plugins[0].ipam.pools"],
    ],
    ["text that is no JSON", '{"name": x}', ["document-unreadable "]],
  ])("refuses %s", async (_title, text, expected) => {
    const found = await validate(text);

    expect(found.filter(({ severity }) => severity === "error").map(({ code, path }) => `${code} ${path}`)).toEqual(expected);
  });

  it("takes keys in any letter case, keys of the specification and keys of other plugins as they are", async () => {
    const text = list({ MTU: 1400, capabilities: { mac: true }, dns: {} }, { type: "portmap", snat: true, whatever: 1 });

    expect(await validate(text)).toEqual([]);
  });

  it("warns of unknown keys of the list and of known objects inside", async () => {
    const text = JSON.stringify({ ...JSON.parse(list({ kubernetes: { kubeconf: "/x" } })), disablecheck: true });

    expect((await validate(text)).map(({ path, suggestion }) => [path, suggestion])).toEqual([
      ["disablecheck", "disableCheck"],
      ["plugins[0].kubernetes.kubeconf", "kubeconfig"],
    ]);
  });

  it("leaves comments, open keys and what another IPAM plugin reads alone", async () => {
    const text = list({ _comment: "x", args: { cni: { a: 1 } }, ipam: { type: "host-local", dataDir: "/x" } });

    expect(await validate(text)).toEqual([]);
  });

  it.each(readdirSync("manifests/conflist"))("finds nothing in %s of manifests/", async (name) => {
    expect(await validate(readFileSync(`manifests/conflist/${name}`, "utf8"), name)).toEqual([]);
  });
});

describe("validate on objects", () => {
  it.each([
    ["a pool's CIDR with host bits", object("IPPool", { cidr: "10.0.0.1/16" }), "netconf-value spec.cidr"],
    ["a pool's block size", object("IPPool", { cidr: "10.0.0.0/16", blockSize: 8 }), "netconf-value spec.blockSize"],
    [
      "a pool's member of the wrong type",
      object("IPPool", { cidr: "10.0.0.0/16", disabled: "no" }),
      "datastore-object-invalid spec.disabled",
    ],
    ["a pool's selector", object("IPPool", { cidr: "10.0.0.0/16", nodeSelector: "a =" }), "selector-syntax spec.nodeSelector"],
    ["a configuration", object("IPAMConfig", { maxBlocksPerHost: "4" }), "datastore-object-invalid spec.maxBlocksPerHost"],
    [
      "the configuration of the other group",
      object("IPAMConfiguration", { strictAffinity: 1 }, "projectcalico.org/v3"),
      "datastore-object-invalid spec.strictAffinity",
    ],
    ["an affinity", object("BlockAffinity", { cidr: "10.0.0.0/26", node: "n", state: "maybe" }), "datastore-object-invalid spec.state"],
    [
      "a block",
      object("IPAMBlock", { cidr: "10.0.0.0/30", allocations: [null], unallocated: [] }),
      "datastore-object-invalid spec.allocations",
    ],
    [
      "an annotation",
      pod({ "cni.projectcalico.org/ipAddrs": '["10.0.0.300"]' }),
      'annotation-invalid metadata.annotations["cni.projectcalico.org/ipAddrs"]',
    ],
    [
      "annotations that contradict each other",
      pod({ "cni.projectcalico.org/ipAddrs": '["10.0.0.3"]', "cni.projectcalico.org/ipAddrsNoIpam": '["10.0.0.3"]' }),
      'annotation-invalid metadata.annotations["cni.projectcalico.org/ipAddrs"]',
    ],
    ["an annotation that is no text", pod({ "cni.projectcalico.org/ipv4pools": [] }), "datastore-object-invalid metadata"],
    ["nothing but objects of others", '{"apiVersion":"v1","kind":"Service"}', "document-unknown "],
    ["something without a kind", '{"a":1}', "document-unknown "],
  ])("refuses %s", async (_title, text, expected) => {
    expect((await validate(text, "x.json")).map(({ severity, code, path }) => `${severity} ${code} ${path}`)).toEqual([
      `error ${expected}`,
    ]);
  });

  it("passes over objects of others among its own, and finds nothing in the rendered manifest", async () => {
    expect(await validate("apiVersion: v1\nkind: Service\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "x.yaml")).toEqual([]);
    expect(await validate(readFileSync("manifests/tortie.yaml", "utf8"), "tortie.yaml")).toEqual([]);
  });

  it("warns of what would be ignored", async () => {
    const texts = [
      object("IPPool", { cidr: "10.0.0.0/16", blocksize: 26 }),
      object("IPPool", { cidr: "10.0.0.0/16", assignmentMode: "manual" }),
      object("IPReservation", { reservedCIDRs: ["10.0.0.0/30", "10.0.0.9", "nowhere"] }),
      pod({ "cni.projectcalico.org/ipAddr": "[]" }),
      pod({ "qos.projectcalico.org/ingressBandwidth": "much" }),
    ];
    const found = await Promise.all(texts.map((text) => validate(text, "x.json")));

    expect(found.map((findings) => findings.map(brief))).toEqual([
      [["warning", "key-unknown", "spec.blocksize"]],
      [["warning", "value-ignored", "spec"]],
      [["warning", "value-ignored", "spec.reservedCIDRs[2]"]],
      [["warning", "key-unknown", 'metadata.annotations["cni.projectcalico.org/ipAddr"]']],
      [["warning", "value-ignored", 'metadata.annotations["qos.projectcalico.org/ingressBandwidth"]']],
    ]);
  });

  it("reads every document of a YAML file, pod templates and lists, and the digits of sequence numbers", async () => {
    const text = `# a comment
apiVersion: crd.projectcalico.org/v1
kind: IPAMBlock
metadata: {name: 10-0-0-0-31}
spec:
  cidr: 10.0.0.0/31
  allocations: [null, null]
  unallocated: [0, 1]
  sequenceNumber: 1795255867684115172
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata:
      annotations: {cni.projectcalico.org/hwAddr: "nothing"}
---
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Namespace, metadata: {name: a, annotations: {cni.projectcalico.org/ipFamilies: '["ipv4"]'}}}
---
a: [
`;

    const found = await validate(text, "x.yaml");

    expect(found.map(({ document, line, column, code, path }) => [document, line, column, code, path])).toEqual([
      [2, 17, 21, "annotation-invalid", 'spec.template.metadata.annotations["cni.projectcalico.org/hwAddr"]'],
      [3, 22, 73, "annotation-invalid", 'items[0].metadata.annotations["cni.projectcalico.org/ipFamilies"]'],
      [4, 25, 1, "document-unreadable", ""],
    ]);
  });
});

it.each([
  ["asign_ipv4", "assign_ipv4"],
  ["BLOCKSIZE", "blockSize"],
  ["mut", "mtu"],
  ["completely_else", undefined],
])("the suggestion for %s is %s", (word, expected) => {
  expect(suggestionFor(word, ["assign_ipv4", "blockSize", "mtu", "ipam"])).toBe(expected);
});

it("docs/reference/tortiectl.md lists the codes that are not words of docs/reference/errors.md", () => {
  const listed = [
    ...readFileSync("docs/reference/tortiectl.md", "utf8").matchAll(/^\| `((?:document|key|value|plugin)-\w+)` \| (.*) \|$/gm),
  ];

  expect(Object.fromEntries(listed.map(([, code, meaning]) => [code, meaning]))).toEqual(FINDING_CODES);
});
