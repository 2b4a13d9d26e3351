/** From Calico's plugins to Tortie and back while pods run, come and go, and the commands of docs/how-to/migrate-from-calico.md on the way. */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode } from "../../support/kubernetes/api-server-node.ts";
import { type CalicoGroup, LEGACY, startCluster, V3 } from "../../support/kubernetes/test-cluster.ts";
import { BIN_DIR, type Pod } from "../../support/node.ts";
import {
  addAsCalico,
  BLOCK,
  bindBlock,
  CALICO_NETWORK,
  type CalicoPod,
  delAsCalico,
  handleOf,
  hostInterfaceOf,
  POOL,
} from "./calico-node.ts";

const COUNT = 6;
/** Tortie's configuration under the name of Calico's network, as the manifests have it. */
const CONF = { name: CALICO_NETWORK };
const COMMANDS = [...readFileSync(resolve("docs/how-to/migrate-from-calico.md"), "utf8").matchAll(/^tortiectl (.+)$/gm)].map(
  ([, rest = ""]) => rest,
);

const cluster = shared(startCluster);

const numbers = Array.from({ length: COUNT }, (_, number) => number);

async function calicosNode(group: CalicoGroup): Promise<ApiServerNode> {
  const node = await ApiServerNode.create(cluster, { group, pools: [POOL] });
  await bindBlock(node);
  return node;
}

interface OurPod {
  readonly pod: string;
  readonly container: string;
  readonly sandbox: Pod;
  readonly address: string;
}

async function addAsTortie(node: ApiServerNode, pod: string): Promise<OurPod> {
  await node.pod(pod);
  const call = { pod, container: `tortie-${pod}`, sandbox: await node.sandbox(pod), conf: CONF };
  const { ips } = await node.add(call);
  return { ...call, address: String(ips[0]?.address).replace("/32", "") };
}

async function delAsTortie(node: ApiServerNode, { pod, container, sandbox }: Pick<OurPod, "pod" | "container" | "sandbox">): Promise<void> {
  await node.del({ pod, container, sandbox, conf: CONF });
}

async function pings(node: ApiServerNode, from: Pod, address: string): Promise<boolean> {
  const { exit } = await node.node.run(["/usr/bin/ping", "-n", "-c", "3", "-i", "0.2", "-W", "10", address], {}, from);
  return exit === 0;
}

/** Everything that makes a pod work, from outside. */
async function stateOf(node: ApiServerNode, { pod, sandbox }: Pick<CalicoPod, "pod" | "sandbox">): Promise<unknown> {
  const [link] = await node.node.ip("-j", "link", "show", "dev", hostInterfaceOf(pod));
  const routes = await node.node.ip("-j", "route", "show", "dev", hostInterfaceOf(pod));
  return {
    annotations: await node.annotations(pod),
    addresses: await node.podAddresses(sandbox),
    podRoutes: await node.podRoutes(sandbox),
    link: [link?.ifindex, link?.address],
    routes,
  };
}

/** @returns addresses that are in use, by handle */
async function addressesByHandle(node: ApiServerNode): Promise<Readonly<Record<string, readonly string[]>>> {
  const held = Object.entries(await node.held());
  return Object.fromEntries(held.map(([handle, places]) => [handle, places.map((place) => place.replace(`${BLOCK}#`, "10.70.0."))]));
}

async function runPage(node: ApiServerNode): Promise<void> {
  for (const rest of COMMANDS) {
    const line = rest.replaceAll("~/.kube/config", cluster.adminKubeconfig).split(" ");
    const run = await node.node.run([join(BIN_DIR, "tortiectl"), ...line]);
    expect([rest, run.exit, run.exit === 0 ? "" : run.stdout + run.stderr]).toEqual([rest, 0, ""]);
  }
}

describe.each([LEGACY, V3] as const)("A node of Calico's, %s", (group) => {
  it("changes to Tortie in a burst: running pods keep all they have, and are deleted by Tortie", async () => {
    await using node = await calicosNode(group);
    const staying: CalicoPod[] = [];
    const leaving: CalicoPod[] = [];
    for (const number of numbers) {
      staying.push(await addAsCalico(node, `stay-${number}`));
      leaving.push(await addAsCalico(node, `leave-${number}`));
    }
    const before = await Promise.all(staying.map((pod) => stateOf(node, pod)));

    const [fresh] = await Promise.all([
      Promise.all(numbers.map((number) => addAsTortie(node, `new-${number}`))),
      Promise.all(leaving.map((pod) => delAsTortie(node, pod))),
    ]);

    expect(await Promise.all(staying.map((pod) => stateOf(node, pod)))).toEqual(before);
    expect(await addressesByHandle(node)).toEqual(
      Object.fromEntries([...staying, ...fresh].map(({ container, address }) => [handleOf(container), [address]])),
    );
    expect(new Set([...staying, ...fresh].map(({ address }) => address)).size).toBe(2 * COUNT);
    for (const { hostInterface } of leaving)
      expect(await node.node.run(["/usr/sbin/ip", "link", "show", hostInterface])).toMatchObject({ exit: 1 });
    const [[old], [young]] = [staying, fresh];
    if (old === undefined || young === undefined) throw new Error("no pods");
    // The kernel answers for 169.254.1.1 only where it has a route to it (arp_fwd_proxy in net/ipv4/arp.c), as every machine has.
    await node.node.ip("route", "add", "default", "dev", "lo");
    expect(await pings(node, young.sandbox, old.address)).toBe(true);
    expect(await pings(node, old.sandbox, young.address)).toBe(true);
    await node.node.ip("route", "delete", "default");

    await Promise.all([...staying, ...fresh].map((pod) => delAsTortie(node, pod)));
    await node.expectNothingLeft(...[...staying, ...leaving, ...fresh].map(({ pod }) => pod));
  });

  it("goes back in a burst: an allocator of Calico's manner releases Tortie's pods while both give out addresses", async () => {
    await using node = await calicosNode(group);
    const ours = await Promise.all(numbers.map((number) => addAsTortie(node, `ours-${number}`)));

    const [young, calicos] = await Promise.all([
      Promise.all(numbers.map((number) => addAsTortie(node, `young-${number}`))),
      Promise.all(numbers.map((number) => addAsCalico(node, `calico-${number}`))),
      Promise.all(ours.map(({ pod, container }) => delAsCalico(node, pod, container))),
    ]);

    const there = [...young, ...calicos];
    expect(await addressesByHandle(node)).toEqual(
      Object.fromEntries(there.map(({ container, address }) => [handleOf(container), [address]])),
    );
    expect(new Set(there.map(({ address }) => address)).size).toBe(2 * COUNT);

    for (const { pod, container } of there) await delAsCalico(node, pod, container);
    await node.expectNothingLeft(...[...ours, ...there].map(({ pod }) => pod));
  });
});

describe("docs/how-to/migrate-from-calico.md", () => {
  it("has commands that find nothing wrong with pods of both", async () => {
    await using node = await calicosNode(LEGACY);
    await addAsCalico(node, "old");
    await addAsTortie(node, "new");

    expect(COMMANDS).not.toHaveLength(0);
    await runPage(node);
  });

  it("is right about the network's name: the manifests have Calico's, and a DEL under another one frees no address", async () => {
    expect(readFileSync(resolve("manifests/node/config.yaml"), "utf8")).toContain(`"name": "${CALICO_NETWORK}"`);
    await using node = await calicosNode(LEGACY);
    const { pod, container, sandbox, address } = await addAsCalico(node, "old");

    await node.del({ pod, container, sandbox, conf: { name: "other" } });
    expect(await addressesByHandle(node)).toEqual({ [handleOf(container)]: [address] });

    await delAsTortie(node, { pod, container, sandbox });
    expect(await addressesByHandle(node)).toEqual({});
  });

  it("has a command that names an address which two pods were given", async () => {
    await using node = await calicosNode(LEGACY);
    const old = await addAsCalico(node, "old");
    await node.pod("twin", {
      annotations: { "cni.projectcalico.org/containerID": "twin", "cni.projectcalico.org/podIPs": `${old.address}/32` },
    });

    await expect(runPage(node)).rejects.toThrow(old.address);
  });
});
