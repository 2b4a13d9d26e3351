/** What weakens policy on a node, on a real one: each rule finds what was broken, and nothing once its remedy was applied. */
import { join } from "node:path";
import type { PolicyFinding } from "../../../doctor/policy.ts";
import { probe } from "../../support/dataplane-probe.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node, type Pod } from "../../support/node.ts";

const node = fresh(Node.create);
let pods: readonly [Pod, Pod];

/** Runs in the node's namespace, with the table of two endpoints that may speak to nobody. */
async function inNode<T>(work: string): Promise<T> {
  const answer = await probe<T>(
    node,
    `(async () => {
      const { PolicyTable } = await import("${process.cwd()}/dataplane/nftables/policy/policy-table.ts");
      const { readNodeFacts } = await import("${process.cwd()}/doctor/policy-facts.ts");
      const { policyFindings } = await import("${process.cwd()}/doctor/policy.ts");
      const table = new PolicyTable(host, { prefixes: ["cali"], logGroup: 4789 });
      const closed = { addresses: [], ingress: new Map(), egress: new Map() };
      const state = { endpoints: new Map([["cali1", closed], ["cali2", closed]]), addresses: new Map(), blocks: [] };
      ${work}
    })()`,
  );
  if (answer.error !== undefined) throw new Error(answer.error.message);
  return answer.value as T;
}

const enforce = () => inNode("await table.replace(state);");

/** @param more facts that come from elsewhere than the kernel's state alone */
async function found(more = "{}"): Promise<readonly string[]> {
  const findings = await inNode<readonly PolicyFinding[]>(`
    const facts = { ...readNodeFacts(host, {}), isServed: true, isEnforced: true, differences: [], unread: [], unenforced: undefined };
    return policyFindings({ ...facts, ...${more} });`);
  return findings.map(({ kind, message }) => `${kind}: ${message}`);
}

const nft = async (...command: string[]) => {
  const { exit, stderr } = await node.run(["/usr/sbin/nft", ...command]);
  expect({ exit, stderr }).toEqual({ exit: 0, stderr: "" });
};
const DIFFERENCES = "{ differences: await table.inspect(state) }";

beforeEach(async () => {
  pods = [await node.addPod(), await node.addPod()];
  for (const [at, pod] of pods.entries()) {
    const name = `cali${at + 1}`;
    await node.ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", pod.name);
    await node.ip("link", "set", name, "up");
    await node.podIp(pod, "address", "add", `10.5.0.${at + 1}/24`, "dev", "eth0");
    await node.podIp(pod, "link", "set", "eth0", "up");
  }
  await enforce();
});

async function hasAnswer(): Promise<boolean> {
  return (await node.run(["ping", "-c", "1", "-W", "1", "10.5.0.2"], {}, pods[0])).exit === 0;
}

it("nothing is found on a node that is as its agent left it", async () => {
  expect(await found(DIFFERENCES)).toEqual([]);
});

it("a table that somebody has deleted is found, and not once it was made again", async () => {
  await nft("delete", "table", "inet", "tortie-policy");
  expect(await found()).toEqual([expect.stringContaining("policy-table-missing: policy is on")]);

  await enforce();
  expect(await found(DIFFERENCES)).toEqual([]);
});

it.each([
  ["a rule was added", ["insert", "rule", "inet", "tortie-policy", "forward", "accept"]],
  ["a chain was emptied", ["flush", "chain", "inet", "tortie-policy", "from-pod"]],
  ["an address was put into another class", ["add element inet tortie-policy ingress-addresses4 { 10.5.0.1 : goto ingress-000000000000 }"]],
  ["an endpoint was opened", ["add", "rule", "inet", "tortie-policy", "egress-000000000000", "return"]],
])("a table in which %s is found, and not once it was mended", async (_what, command) => {
  await nft(...command);
  expect(await found(DIFFERENCES)).toEqual([expect.stringContaining("policy-table-edited: ")]);

  await enforce();
  expect(await found(DIFFERENCES)).toEqual([]);
});

it("a table that was left is found once the agent says that policy is off, and not once the node was opened", async () => {
  const off = "{ isEnforced: false }";
  expect(await found(off)).toEqual([expect.stringContaining("policy-table-left: ")]);

  await inNode("await table.remove();");
  expect(await found(off)).toEqual([]);
});

it("a host end that nobody has spoken for is found, and not once somebody has", async () => {
  await node.ip("link", "add", "cali3", "type", "veth", "peer", "name", "other");
  expect(await found()).toEqual([expect.stringMatching(/^policy-endpoint-unknown: 1 pod is closed .*\(cali3\)$/)]);

  await inNode("state.endpoints.set('cali3', { addresses: [], ingress: undefined, egress: undefined }); await table.replace(state);");
  expect(await found()).toEqual([]);
});

it("chains of Felix are found, and not once they are gone", async () => {
  await nft("add table ip filter; add chain ip filter cali-FORWARD");
  expect(await found()).toEqual([expect.stringContaining("policy-felix: ")]);

  await nft("delete", "table", "ip", "filter");
  expect(await found()).toEqual([]);
});

it("kube-proxy's device of IPVS is found, and not once it is gone", async () => {
  await node.ip("link", "add", "kube-ipvs0", "type", "bridge");
  expect(await found()).toEqual([expect.stringContaining("policy-ipvs: ")]);

  await node.ip("link", "delete", "kube-ipvs0");
  expect(await found()).toEqual([]);
});

it.each(["0", "1"])(
  "host ends in a bridge reach each other although both are closed, with bridge-nf-call-iptables=%s, and are found",
  async (value) => {
    await node.ip("link", "add", "br0", "type", "bridge");
    await node.ip("link", "set", "br0", "up");
    await node.run(["sh", "-c", `echo ${value} >/proc/sys/net/bridge/bridge-nf-call-iptables`]);
    for (const name of ["cali1", "cali2"]) await node.ip("link", "set", name, "master", "br0");
    expect(await hasAnswer()).toBe(true);
    expect(await found()).toEqual([expect.stringMatching(/^policy-bridge: .*cali1 of br0, cali2 of br0$/)]);

    for (const name of ["cali1", "cali2"]) await node.ip("link", "set", name, "nomaster");
    expect(await hasAnswer()).toBe(false);
    expect(await found()).toEqual([]);
  },
);

it("an uninstallation opens the node, and says so once", async () => {
  const uninstall = () =>
    node.run([join(node.binDir, "tortiectl"), "uninstall", "--net-dir", join(node.dir, "net.d")], {
      env: { TORTIE_SOCK: join(node.dir, "tortie.sock") },
    });
  expect((await uninstall()).stdout).toContain("table inet tortie-policy is removed");

  expect(await found("{ isServed: false, isEnforced: undefined }")).toEqual([]);
  expect((await node.run(["/usr/sbin/nft", "list", "tables"])).stdout).not.toContain("tortie-policy");
  const again = await uninstall();
  expect(again).toMatchObject({ exit: 0, stdout: expect.not.stringContaining("policy") });
});
