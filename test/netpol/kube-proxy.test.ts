import { execFileSync } from "node:child_process";
import { join, resolve } from "node:path";
import { shared } from "../support/fixtures.ts";
import { NAMESPACE } from "../support/kubernetes/api-server-node.ts";
import { createPolicyClusterNode, type PolicyClusterNode } from "../support/kubernetes/policy-cluster-node.ts";
import { endProcess, startProcess } from "../support/kubernetes/process.ts";
import { type Fields, startCluster } from "../support/kubernetes/test-cluster.ts";
import { eventually, policyTable } from "../support/policy-agent.ts";
import { machineBeyond, type Place, reach } from "../support/policy-node.ts";

const HOST = "172.20.1.1";
const OUTSIDE = "172.20.1.2";
const NODE_PORT = 30080;
const SERVICE_PORT = 8080;
const SERVICES = `/api/v1/namespaces/${NAMESPACE}/services`;

jest.setTimeout(600_000);

const programs = execFileSync("bash", [resolve("scripts/cluster-servers"), "netpol"], { encoding: "utf8" }).trim();
const cluster = shared(startCluster);

function startProxy({ api }: PolicyClusterNode, mode: string): AsyncDisposable {
  const settings = ["--kubeconfig", cluster.adminKubeconfig, "--hostname-override", api.name, "--proxy-mode", mode];
  // The limits of conntrack are the machine's, whose files are read-only here.
  const limits = ["--conntrack-max-per-core", "0", "--conntrack-tcp-timeout-established", "0s", "--conntrack-tcp-timeout-close-wait", "0s"];
  const line = api.node.commandLine([join(programs, "kube-proxy"), ...settings, ...limits]);
  const pid = startProcess([...line], join(cluster.dir, `kube-proxy-${mode}.log`));
  return { [Symbol.asyncDispose]: () => endProcess(pid) };
}

/** Makes a Service of one backend. @returns its address */
async function serve(backend: string): Promise<string> {
  const ports = [{ port: SERVICE_PORT, targetPort: 80, nodePort: NODE_PORT, protocol: "TCP" }];
  const service = await cluster.api("POST", SERVICES, {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web" },
    spec: { type: "NodePort", ports },
  });
  expect(service).toMatchObject({ status: 201 });
  const slice = await cluster.api("POST", `/apis/discovery.k8s.io/v1/namespaces/${NAMESPACE}/endpointslices`, {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: "web", labels: { "kubernetes.io/service-name": "web" } },
    addressType: "IPv4",
    endpoints: [{ addresses: [backend], conditions: { ready: true } }],
    ports: [{ name: "", port: 80, protocol: "TCP" }],
  });
  expect(slice).toMatchObject({ status: 201 });
  return (service.body as { spec: { clusterIP: string } }).spec.clusterIP;
}

/** Everything of the node's packet filters that is not ours, without counters. */
async function foreignRules({ api: { node } }: PolicyClusterNode): Promise<string> {
  const { stdout: tables } = await node.run(["/usr/sbin/nft", "list", "tables"]);
  const foreign = tables.split("\n").filter((line) => line !== "" && !line.includes("tortie"));
  const texts = await Promise.all(foreign.map((line) => node.run(["/usr/sbin/nft", "list", ...line.split(" ")])));
  return texts.map(({ stdout }) => stdout.replaceAll(/packets \d+ bytes \d+/g, "")).join("");
}

/** Returns what others have written once nothing more comes: kube-proxy writes one family after the other. */
async function settledRules(world: PolicyClusterNode): Promise<string> {
  for (let before = ""; ; ) {
    const now = await foreignRules(world);
    if (now === before) return now;
    before = now;
    await Bun.sleep(2_000);
  }
}

/** Puts a policy in the place of the one of that name, and waits until it is in force. */
async function enforce(world: PolicyClusterNode, name: string, spec: Fields): Promise<void> {
  await cluster.createPolicy(name, spec, NAMESPACE);
  expect(await world.wait()).toMatchObject({ exit: 0 });
}

afterEach(async () => {
  await cluster.api("DELETE", `${SERVICES}/web`);
  await cluster.api("DELETE", `/apis/discovery.k8s.io/v1/namespaces/${NAMESPACE}/endpointslices/web`);
});

it.each(["nftables", "iptables"])(
  "kube-proxy --proxy-mode %s and policy leave each other alone, and Services are judged by their backends",
  async (mode) => {
    await using world = await createPolicyClusterNode(cluster);
    await cluster.apply({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: world.api.name },
      spec: {},
      status: { addresses: [{ type: "InternalIP", address: HOST }] },
    });
    await using machine = await machineBeyond(world.api.node, HOST, OUTSIDE);
    const [web, client, other] = [
      await world.pod("web", { app: "web" }),
      await world.pod("client", { app: "client" }),
      await world.pod("other", {}),
    ];
    const service = await serve(web.address[4]);
    await using _proxy = startProxy(world, mode);
    const connect = (from: Place, to: string, port: number) => from.prober.ask<string>("tcp", { to, port });
    const toService = (from: Place) => connect(from, service, SERVICE_PORT);
    const fromOutside = () => connect(machine, HOST, NODE_PORT);
    expect(await eventually("ok", () => toService(client), 60_000)).toBe("ok");
    expect(await Promise.all([toService(web), fromOutside()])).toEqual(["ok", "ok"]);
    const before = await settledRules(world);
    expect(before).toContain(service);

    const setEgress = async (to: object, port: number) => {
      const spec = { podSelector: { matchLabels: { app: "client" } }, policyTypes: ["Egress"], egress: [{ to: [to], ports: [{ port }] }] };
      await enforce(world, "client", spec);
    };
    const backend = { podSelector: { matchLabels: { app: "web" } } };
    await setEgress(backend, 80);
    expect(await Promise.all([toService(client), reach(client, other, "tcp", 80)])).toEqual(["ok", "timeout"]);
    await setEgress(backend, SERVICE_PORT);
    expect(await toService(client)).toBe("timeout");
    await setEgress({ ipBlock: { cidr: `${service}/32` } }, SERVICE_PORT);
    expect(await toService(client)).toBe("timeout");

    const setIngress = async (...from: readonly object[]) => {
      const ingress = from.map((peer) => ({ from: [peer] }));
      await enforce(world, "web", { podSelector: { matchLabels: { app: "web" } }, policyTypes: ["Ingress"], ingress });
    };
    await setIngress({ ipBlock: { cidr: `${HOST}/32` } });
    expect(await Promise.all([fromOutside(), toService(other), toService(web)])).toEqual(["timeout", "timeout", "ok"]);
    await setIngress({ ipBlock: { cidr: `${OUTSIDE}/32` } });
    expect(await Promise.all([fromOutside(), toService(other), toService(web)])).toEqual(["ok", "timeout", "ok"]);
    await world.agent.kill();
    await world.agent.restart();
    expect(await world.wait()).toMatchObject({ exit: 0 });
    expect(await foreignRules(world)).toBe(before);

    const own = await policyTable(world.api.node);
    await cluster.api("DELETE", `${SERVICES}/web`);
    expect(await eventually(false, async () => (await foreignRules(world)).includes(service), 60_000)).toBe(false);
    expect(await policyTable(world.api.node)).toBe(own);
    for (const { call } of [web, client, other]) await world.api.del(call);
  },
);
