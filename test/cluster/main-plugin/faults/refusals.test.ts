/** What an ADD that cannot succeed says on standard output: the object, what is wrong with it, and what to do. Nothing is left behind. */
import { writeFileSync } from "node:fs";
import { shared } from "../../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE, type PodCall } from "../../../support/kubernetes/api-server-node.ts";
import { LEGACY, startCluster, V3 } from "../../../support/kubernetes/test-cluster.ts";

const PREFIX = "cni.projectcalico.org/";

const cluster = shared(startCluster);
const node = shared(() => ApiServerNode.create(cluster, { pools: ["10.60.0.0/26"] }));
beforeAll(async () => {
  await node.pool("disabled", "10.61.0.0/26", { disabled: true });
  await node.pool("tunnels", "10.62.0.0/26", { allowedUses: ["Tunnel"] });
});

/** The ADD's error, which must be all that there is. */
async function errorOf(call: PodCall): Promise<{ readonly msg: string; readonly details: string }> {
  const { exit, json } = await node.call("ADD", call);
  expect([exit, json]).toEqual([1, { code: 999, msg: expect.any(String), details: expect.any(String) }]);
  await node.expectNothingLeft();
  return json as { readonly msg: string; readonly details: string };
}

async function expectError(call: PodCall, parts: readonly string[], word: string): Promise<void> {
  const { msg, details } = await errorOf(call);
  const [facts = ""] = details.split(`${word}: `);
  for (const part of parts) expect(msg + facts).toContain(part);
  expect(details).toMatch(new RegExp(`(^|; )${word}: [a-z]`));
}

const withIpam = (keys: object): PodCall => ({ conf: { ipam: { type: "calico-ipam", ...keys } } });

describe("An annotation of the pod", () => {
  it.each<[string, string, readonly string[], string]>([
    ["ipv4pools", '["10.60', ["ipv4pools", "test/pod"], "annotation-invalid"],
    ["ipv4pools", '["absent"]', ["absent"], "pool-entry-invalid"],
    ["ipv4pools", '["10.99.0.0/16"]', ["10.99.0.0/16"], "pool-unknown"],
    ["ipv4pools", '["disabled"]', ["10.61.0.0/26"], "pool-unknown"],
    ["ipv6pools", '["pool4"]', ["10.60.0.0", "IPv6"], "pool-family"],
    ["ipv4pools", '["tunnels"]', ["tunnels (10.62.0.0/26)", "Workload"], "pool-use"],
    ["ipFamilies", '["IPv5"]', ["ipFamilies", "IPv5", "test/pod"], "annotation-invalid"],
    ["ipAddrs", "10.60.0.9", ["ipAddrs", "test/pod"], "annotation-invalid"],
    ["ipAddrs", '["10.99.0.9"]', ["not in a configured pool"], "address-outside-pools"],
    ["ipAddrsNoIpam", '["10.99.0.9"]', ["ip_addrs_no_ipam"], "feature-disabled"],
    ["floatingIPs", '["1.1.1.1"]', ["floating_ips"], "feature-disabled"],
    ["hwAddr", "nonsense", ["hwAddr", "nonsense", "test/pod"], "annotation-invalid"],
    ["allowedSourcePrefixes", '["nonsense"]', ["allowedSourcePrefixes"], "annotation-invalid"],
  ])("%s of %s is named, with what to do", async (name, value, parts, word) => {
    await node.pod("pod", { annotations: { [PREFIX + name]: value } });
    await expectError({}, parts, word);
  });
});

describe("An annotation of the namespace", () => {
  afterAll(() => cluster.createNamespace(NAMESPACE));

  it("that cannot be read is named with its namespace", async () => {
    await cluster.createNamespace(NAMESPACE, { [`${PREFIX}ipv4pools`]: "pool4" });
    await node.pod("pod");
    await expectError({}, ["ipv4pools", "test"], "annotation-invalid");
  });
});

describe("The network configuration", () => {
  beforeEach(() => node.pod("pod"));

  it.each<[string, PodCall, readonly string[], string]>([
    ["an unknown pool", withIpam({ ipv4_pools: ["absent"] }), ["absent"], "pool-entry-invalid"],
    ["no pool of a family that is switched on", withIpam({ assign_ipv6: "true" }), ["no IPv6 pool is enabled"], "pool-none"],
    [
      "a kubeconfig that is not there",
      { conf: { kubernetes: { kubeconfig: "/absent/kubeconfig" } } },
      ["/absent/kubeconfig"],
      "kubeconfig-unreadable",
    ],
    [
      "a server that is not there",
      { conf: { kubernetes: { k8s_api_root: "https://127.0.0.1:9" } } },
      ["GET https://127.0.0.1:9/", "connection refused"],
      "datastore-unavailable",
    ],
    [
      "a host that nobody knows",
      { conf: { kubernetes: { k8s_api_root: "https://api.invalid:6443" } } },
      ["GET https://api.invalid:6443/", "lookup api.invalid"],
      "datastore-unavailable",
    ],
  ])("with %s: it is named, with what to do", async (_, call, parts, word) => {
    const { kubernetes, ...conf } = (call.conf ?? {}) as Record<string, object>;
    const whole = kubernetes === undefined ? {} : { kubernetes: { kubeconfig: node.kubeconfig, ...kubernetes } };
    await expectError({ conf: { ...conf, ...whole } }, parts, word);
  });

  it.each<[string, string | object, string, string]>([
    ["is no YAML", "a: [", "yaml", "kubeconfig-invalid"],
    ["lacks its context", { "current-context": "absent" }, 'context "absent"', "kubeconfig-invalid"],
    [
      "names no server",
      { "current-context": "c", contexts: [{ name: "c", context: { cluster: "x" } }], clusters: [{ name: "x", cluster: {} }] },
      "server",
      "kubeconfig-invalid",
    ],
  ])("whose kubeconfig %s: file and key are named", async (_, content, part, word) => {
    const kubeconfig = `${node.node.dir}/kubeconfig`;
    writeFileSync(kubeconfig, typeof content === "string" ? content : JSON.stringify(content));
    await expectError({ conf: { kubernetes: { kubeconfig } } }, [kubeconfig, part], word);
  });

  it("whose kubeconfig trusts another authority: server and certificate are named, at the first try", async () => {
    const kubeconfig = `${node.node.dir}/kubeconfig`;
    const { clusters: _, ...template } = JSON.parse(await Bun.file(node.kubeconfig).text());
    writeFileSync(kubeconfig, JSON.stringify({ ...template, clusters: [{ name: "local", cluster: { server: cluster.server } }] }));
    const { msg, details } = await errorOf({ conf: { kubernetes: { kubeconfig } } });
    expect(msg).toMatch(new RegExp(`GET ${cluster.server}/.*certificate signed by unknown authority`));
    expect(msg).not.toContain("(tried");
    expect(details).toMatch(/^datastore-untrusted: /);
  });
});

describe("The cluster", () => {
  it.each<[string, PodCall, readonly string[]]>([
    ["no such pod", { pod: "absent" }, ['pods "absent" not found in namespace test']],
    ["no such namespace", { args: ";K8S_POD_NAMESPACE=absent" }, ['namespaces "absent" not found']],
  ])("that has %s: it is named", async (_, call, parts) => {
    await expectError(call, parts, "datastore-object-missing");
  });

  it.each([LEGACY, V3])("that gives the account no right says which account lacks which right on what, %s", async (group) => {
    await node.pod("pod");
    const kubeconfig = await cluster.kubeconfigFor("stranger");
    const account = '"system:serviceaccount:kube-system:test-stranger"';
    await expectError(
      { conf: { calico_api_group: group, kubernetes: { kubeconfig } } },
      [`grant user ${account} the verb get on clusterinformations in API group "${group.split("/")[0]}"`],
      "datastore-forbidden",
    );
  });

  it("that is full names its pools", async () => {
    await node.pool("tiny", "10.64.0.0/32", { blockSize: 32 });
    await node.pod("first");
    const first = { ...(await node.callOf("first", "c0")), ...withIpam({ ipv4_pools: ["tiny"] }) };
    await node.add(first);
    await node.pod("pod");

    const { exit, json } = await node.call("ADD", withIpam({ ipv4_pools: ["tiny"] }));

    expect([exit, json]).toEqual([
      1,
      { code: 999, msg: expect.stringContaining("10.64.0.0/32"), details: expect.stringMatching(/^addresses-exhausted: add a pool/) },
    ]);
    expect(Object.keys(await node.held())).toEqual(["net1.c0"]);
    await node.del(first);
  });
});
