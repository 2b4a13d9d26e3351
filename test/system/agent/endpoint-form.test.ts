/** Links of form `endpoint` (A§3.3 to A§3.7), made by a real agent that has the node's router addresses. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { localConf } from "../../support/conf.ts";
import { Node, type Pod } from "../../support/node.ts";

const RANGES = ["--ipam", "host-scope", "--ipam-strategy", "contiguous", "--ipv4-range", "10.62.0.0/24", "--ipv6-range", "fd62::/112"];
const MTU = 1400;

interface Result {
  readonly interfaces: readonly { readonly name: string; readonly mac?: string }[];
  readonly ips: readonly { readonly address: string; readonly gateway: string; readonly interface: number }[];
  readonly routes: readonly { readonly dst: string; readonly gw?: string }[];
}

interface NodeRecord {
  readonly ipv4?: { readonly router?: string };
  readonly ipv6?: { readonly router?: string };
}

async function routersOf(agent: Agent): Promise<{ readonly v4: string; readonly v6: string }> {
  const read = (): NodeRecord => {
    try {
      return JSON.parse(readFileSync(join(agent.runDir, "state/node.json"), "utf8"));
    } catch {
      return {};
    }
  };
  await agent.until("both routers", () => read().ipv4?.router !== undefined && read().ipv6?.router !== undefined);
  const { ipv4, ipv6 } = read();
  return { v4: ipv4?.router ?? "", v6: ipv6?.router ?? "" };
}

function hostEndOf(containerId: string): string {
  return `lxc${createHash("sha256").update(`${containerId}:eth0`).digest("hex").slice(0, 12)}`;
}

const hasAddress = (family: string) =>
  expect.objectContaining({ addr_info: expect.arrayContaining([expect.objectContaining({ family, scope: "global" })]) });

/** @returns what ping says when there is no answer */
async function ping(node: Node, pod: Pod | undefined, address: string): Promise<string> {
  const { exit, stdout } = await node.run(["/usr/bin/ping", "-c1", "-W10", address], {}, pod);
  return exit === 0 ? "" : stdout;
}

describe("a link of form endpoint", () => {
  it("A-A17: has every attribute of the form, and carries traffic between pods and with the host", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node, { args: RANGES });
    const router = await routersOf(agent);
    const conf = localConf(node, {
      cniVersion: "1.1.0",
      ipam: { type: "tortie-host-scope", assign_ipv6: "true" },
      link_form: "endpoint",
      mtu: MTU,
      ...agent.netconf,
    });
    const [first, second] = [await node.addPod(), await node.addPod()];
    const added = await node.cni("ADD", { pod: first, containerId: "cid1", conf });
    const other = await node.cni("ADD", { pod: second, containerId: "cid2", conf });
    for (const run of [added, other]) expect(run.exit === 0 ? "" : run.stdout).toBe("");
    const { interfaces, ips, routes } = added.json as Result;
    const host = hostEndOf("cid1");

    // 3.6: IPv6 first, the gateway is the router, routes without MTU.
    expect(interfaces.map(({ name }) => name)).toEqual([host, "eth0"]);
    expect(ips.map(({ gateway }) => gateway)).toEqual([router.v6, router.v4]);
    expect(ips.map(({ address }) => address.split("/")[1])).toEqual(["128", "32"]);
    expect(routes).toEqual(
      expect.arrayContaining([
        { dst: `${router.v4}/32` },
        { dst: "0.0.0.0/0", gw: router.v4 },
        { dst: `${router.v6}/128` },
        { dst: "::/0", gw: router.v6 },
      ]),
    );
    const [address6 = "", address4 = ""] = ips.map(({ address }) => address.split("/")[0] ?? "");

    // 3.3: locally administered MACs that were given, the MTU at both ends, no reverse path filter.
    const [hostLink] = await node.ip("-j", "link", "show", host);
    const [podLink] = await node.podIp(first, "-j", "link", "show", "eth0");
    for (const link of [hostLink, podLink]) {
      expect(link).toMatchObject({ mtu: MTU, address: expect.stringMatching(/^[0-9a-f][26ae]:/) });
    }
    expect(podLink?.address).toBe(interfaces[1]?.mac);
    expect(await node.sysctl(`net/ipv4/conf/${host}/rp_filter`)).toBe("0");

    // 3.5: addresses and routes inside, and the host's route to each.
    const [inside] = await node.podIp(first, "-j", "addr", "show", "eth0");
    expect(inside).toEqual(hasAddress("inet"));
    expect(inside).toEqual(hasAddress("inet6"));
    const routes4 = await node.podIp(first, "-j", "-4", "route", "show");
    expect(routes4).toContainEqual(expect.objectContaining({ dst: router.v4, dev: "eth0", scope: "link" }));
    expect(routes4).toContainEqual(
      expect.objectContaining({ dst: "default", gateway: router.v4, metrics: [expect.objectContaining({ mtu: MTU })] }),
    );
    expect(await node.podIp(first, "-j", "-6", "route", "show")).toContainEqual(
      expect.objectContaining({ dst: "default", gateway: router.v6 }),
    );
    expect(await node.ip("-j", "route", "show", address4)).toEqual([expect.objectContaining({ dev: host, scope: "link" })]);
    expect(await node.ip("-j", "-6", "route", "show", address6)).toEqual([expect.objectContaining({ dev: host })]);

    // Pod to pod, pod to host, host to pod, both families.
    const peer = (other.json as Result).ips.map(({ address }) => address.split("/")[0] ?? "");
    for (const target of [...peer, router.v4, router.v6]) expect(await ping(node, first, target)).toBe("");
    for (const target of [address4, address6]) expect(await ping(node, undefined, target)).toBe("");

    const check = async () =>
      (await node.cni("CHECK", { pod: first, containerId: "cid1", conf: { ...conf, prevResult: added.json } })).stdout;
    expect(await check()).toBe("");
    await agent.restart();
    expect(await check()).toBe("");

    for (const [containerId, pod] of [["cid1", first] as const, ["cid2", second] as const]) {
      expect(await node.cni("DEL", { pod, containerId, conf })).toMatchObject({ exit: 0 });
    }
    expect((await node.leftovers()).links).toEqual([]);
  });

  it("is refused where no agent keeps a router address", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const conf = localConf(node, { link_form: "endpoint", agent: "off" });
    const run = await node.cni("ADD", { pod, conf, env: { TORTIE_SOCK: `${node.dir}/none/tortie.sock` } });
    expect(run).toMatchObject({ exit: 1, json: { msg: expect.stringContaining("names no router address") } });
    await node.expectClean();
  });
});
