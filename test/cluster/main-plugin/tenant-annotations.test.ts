/**
 * A tenant who writes what he likes into the annotations of his pod, before its ADD or later: another pod's record, addresses that others
 * have, junk without end. No other pod loses anything by it, the tenant's own DEL and GC take all that is his, and what is printed about it
 * stays short and without control characters.
 */
import { fresh, shared } from "../../support/fixtures.ts";
import { ApiServerNode } from "../../support/kubernetes/api-server-node.ts";
import { LEGACY, startCluster } from "../../support/kubernetes/test-cluster.ts";
import type { CniRun } from "../../support/node.ts";

const PREFIX = "cni.projectcalico.org/";
const TUNNEL_HANDLE = "vxlan-tunnel-addr-node1";
const TUNNEL = "10.60.0.40";
const FEATURES = { feature_control: { ip_addrs_no_ipam: true, floating_ips: true } };
/** What an event of a pod can hold (1 KiB), and room for what to do about it. */
const LONGEST_ERROR = 4096;

type Annotations = Readonly<Record<string, string>>;

const cluster = shared(startCluster);

/** A node with the pod `victim`, which container v1 serves, an address of a tunnel, and the tenant's pod, which has no ADD yet. */
class Scene implements AsyncDisposable {
  readonly node: ApiServerNode;
  /** The victim's. */
  readonly address: string;
  #before: unknown;

  private constructor(node: ApiServerNode, address: string) {
    this.node = node;
    this.address = address;
  }

  static async create(): Promise<Scene> {
    const node = await ApiServerNode.create(cluster, { pools: ["10.60.0.0/26"], pods: ["victim"] });
    const { ips } = await node.add(await node.callOf("victim", "v1"));
    await giveToTunnel(node);
    const scene = new Scene(node, ips[0]?.address.replace("/32", "") ?? "");
    scene.#before = await scene.#others();
    await node.pod("pod");
    return scene;
  }

  /** Replaces all annotations of the tenant's pod. */
  async annotate(annotations: Annotations): Promise<void> {
    await this.node.pod("pod", {
      annotations: Object.fromEntries(Object.entries(annotations).map(([key, value]) => [PREFIX + key, value])),
    });
  }

  call(command: string, conf: Readonly<Record<string, unknown>> = {}): Promise<CniRun> {
    return this.node.call(command, { conf });
  }

  /** With the result of the ADD, as runtimes send it; the record stands in for one that is `undefined`. */
  check(prevResult: unknown, conf: Readonly<Record<string, unknown>> = {}): Promise<CniRun> {
    return this.call("CHECK", { ...conf, prevResult });
  }

  collect(): Promise<CniRun> {
    const conf = { cniVersion: "1.1.0", "cni.dev/valid-attachments": [{ containerID: "v1", ifname: "eth0" }] };
    return this.node.call("GC", { container: "", conf });
  }

  /** The victim and the tunnel have all that they had; where nothing is left of the tenant, nothing else is there either. */
  async expectOthersUntouched(tenant: "attached" | "gone"): Promise<void> {
    expect(await this.#others()).toEqual(this.#before);
    if (tenant === "attached") return;
    expect(Object.keys(await this.node.held()).sort()).toEqual(["net1.v1", TUNNEL_HANDLE]);
    expect((await this.node.node.leftovers()).links).toHaveLength(1);
    expect(await this.node.hostRoutes()).toEqual([this.address]);
  }

  async #others(): Promise<unknown> {
    const { node } = this;
    const sandbox = await node.sandbox("victim");
    const held = await node.held();
    return {
      link: await node.node.podIp(sandbox, "-j", "link", "show", "eth0"),
      addresses: await node.podAddresses(sandbox),
      routes: await node.podRoutes(sandbox),
      hostRoute: await node.node.ip("-j", "route", "show", this.address),
      held: [held["net1.v1"], held[TUNNEL_HANDLE]],
      annotations: await node.annotations("victim"),
      endpoint: await node.endpoint("victim"),
      check: (await node.call("CHECK", { pod: "victim", container: "v1", sandbox })).stdout,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]();
  }
}

/** As Felix does it: an address of the node's block for its VXLAN device. */
async function giveToTunnel({ name }: ApiServerNode): Promise<void> {
  const ordinal = Number(TUNNEL.split(".").at(-1));
  const [block] = await cluster.list(LEGACY, "ipamblocks");
  if (block?.spec === undefined) throw new Error("the victim's ADD made no block");
  const { allocations, attributes, unallocated } = block.spec as Record<"allocations" | "attributes" | "unallocated", readonly unknown[]>;
  const tunnel = { handle_id: TUNNEL_HANDLE, secondary: { node: name, type: "vxlanTunnelAddress" } };
  const spec = {
    ...block.spec,
    allocations: allocations.with(ordinal, attributes.length),
    attributes: [...attributes, tunnel],
    unallocated: unallocated.filter((free) => free !== ordinal),
  };
  await cluster.apply({ ...block, spec });
  const handle = { handleID: TUNNEL_HANDLE, block: { [String(block.spec.cidr)]: 1 }, deleted: false };
  await cluster.apply({ apiVersion: LEGACY, kind: "IPAMHandle", metadata: { name: TUNNEL_HANDLE }, spec: handle });
}

/** Short, and nothing in it speaks to the terminal that shows an event or a log. */
function expectReadable({ exit, stdout, stderr, json }: CniRun): void {
  expect([0, 1]).toContain(exit ?? -1);
  expect(stderr).not.toMatch(/[^\n\P{Cc}]/u);
  if (exit === 0) return;
  expect(stdout.length).toBeLessThan(LONGEST_ERROR);
  const { msg, details } = json as { readonly msg: string; readonly details: string };
  expect(msg).not.toBe("");
  expect(`${msg}${details}`).not.toMatch(/\p{Cc}/u);
  expect(details).not.toContain("internal");
}

const RECORDS: readonly [string, (victim: string) => Annotations][] = [
  ["the other's container and addresses", (ip) => ({ containerID: "v1", podIP: `${ip}/32`, podIPs: `${ip}/32` })],
  ["the other's addresses under its own container", (ip) => ({ containerID: "c1", podIP: `${ip}/32`, podIPs: `${ip}/32` })],
  ["a tunnel's address under its own container", () => ({ containerID: "c1", podIP: `${TUNNEL}/32`, podIPs: `${TUNNEL}/32` })],
  ["the other's container alone", () => ({ containerID: "v1" })],
  ["no container, and the other's addresses", (ip) => ({ containerID: "", podIP: ip, podIPs: `${ip},${TUNNEL}` })],
];

const scene = fresh(Scene.create);

describe("A tenant's pod whose record is forged", () => {
  it.each(RECORDS)("before its ADD, with %s, gets an address of its own", async (_, forged) => {
    await scene.annotate(forged(scene.address));

    const { ips } = await scene.node.add();

    expect([scene.address, TUNNEL]).not.toContain(ips[0]?.address.replace("/32", ""));
    expect(await scene.node.annotations()).toEqual({ containerID: "c1", podIP: ips[0]?.address, podIPs: ips[0]?.address });
    await scene.expectOthersUntouched("attached");
    await scene.node.del();
    await scene.expectOthersUntouched("gone");
  });

  describe.each(RECORDS)("after its ADD, with %s", (_, forged) => {
    it.each(["DEL", "GC"])("loses what it had, and nobody else does, by CHECK and %s", async (command) => {
      const result = await scene.node.add();
      await scene.annotate(forged(scene.address));

      const checked = await scene.check(result);
      expect(checked).toMatchObject({ exit: 1 });
      expectReadable(checked);
      await scene.expectOthersUntouched("attached");

      expect(await (command === "GC" ? scene.collect() : scene.call("DEL"))).toMatchObject({ exit: 0 });
      await scene.expectOthersUntouched("gone");
    });
  });

  it("does not replace the interface of a pod whose name gives the same one", async () => {
    // SHA-1 of "tenant-a.p1284689" and of "tenant-b.p3021008" begin with the same 44 bits.
    await using node = await ApiServerNode.create(cluster, { pools: ["10.60.0.0/26"] });
    const call = async (verb: string, namespace: string, pod: string, container: string) =>
      node.node.cni(verb, {
        plugin: "calico",
        containerId: container,
        pod: await node.sandbox(pod),
        args: `K8S_POD_NAME=${pod};K8S_POD_NAMESPACE=${namespace}`,
        conf: node.conf(),
      });
    for (const namespace of ["tenant-a", "tenant-b"]) await cluster.createNamespace(namespace);
    await cluster.createPod("p1284689", { namespace: "tenant-a" });
    const { json } = await call("ADD", "tenant-a", "p1284689", "v1");
    const before = [await node.node.leftovers(), await node.held()];
    const podIPs = (json as { readonly ips: readonly { readonly address: string }[] }).ips[0]?.address ?? "";
    const annotations = { [`${PREFIX}containerID`]: "v1", [`${PREFIX}podIP`]: podIPs, [`${PREFIX}podIPs`]: podIPs };
    await cluster.createPod("p3021008", { namespace: "tenant-b", annotations });

    const refused = await call("ADD", "tenant-b", "p3021008", "c1");

    expect(refused).toMatchObject({ exit: 1, json: { details: expect.stringContaining("interface-exists") } });
    expect([await node.node.leftovers(), await node.held()]).toEqual(before);
    expect(await call("DEL", "tenant-b", "p3021008", "c1")).toMatchObject({ exit: 0 });
    expect([await node.node.leftovers(), await node.held()]).toEqual(before);
  });
});

const CLAIMS: readonly [string, (victim: string) => Annotations, Readonly<Record<string, unknown>>, string | undefined][] = [
  ["another pod's address", (ip) => ({ ipAddrs: `["${ip}"]` }), {}, "already"],
  ["a tunnel's address", () => ({ ipAddrs: `["${TUNNEL}"]` }), {}, "already"],
  ["another pod's address and its record", (ip) => ({ ipAddrs: `["${ip}"]`, containerID: "v1", podIPs: `${ip}/32` }), {}, "already"],
  ["another pod's address, recorded as its own", (ip) => ({ ipAddrs: `["${ip}"]`, containerID: "c1", podIPs: `${ip}/32` }), {}, "already"],
  ["a tunnel's address, recorded as its own", () => ({ ipAddrs: `["${TUNNEL}"]`, containerID: "c1", podIPs: TUNNEL }), {}, "already"],
  ["another pod's address past IPAM, which is off", (ip) => ({ ipAddrsNoIpam: `["${ip}"]` }), {}, "not enabled"],
  ["another pod's address past IPAM, which is on", (ip) => ({ ipAddrsNoIpam: `["${ip}"]` }), FEATURES, "already exists"],
  ["a tunnel's address past IPAM, which is on", () => ({ ipAddrsNoIpam: `["${TUNNEL}"]` }), FEATURES, undefined],
  ["another pod's address as floating, which is off", (ip) => ({ floatingIPs: `["${ip}"]` }), {}, "not enabled"],
  ["another pod's address as floating, which is on", (ip) => ({ floatingIPs: `["${ip}"]` }), FEATURES, undefined],
  ["a tunnel's address as floating, which is on", () => ({ floatingIPs: `["${TUNNEL}"]` }), FEATURES, undefined],
];

describe("A tenant's pod that asks for", () => {
  it.each(CLAIMS)("%s takes nothing from it, before its ADD and after", async (_, claims, conf, refusal) => {
    await scene.annotate(claims(scene.address));

    const added = await scene.call("ADD", conf);

    expectReadable(added);
    expect(added.exit).toBe(refusal === undefined ? 0 : 1);
    if (refusal !== undefined) expect(added.stdout).toContain(refusal);
    await scene.expectOthersUntouched(refusal === undefined ? "attached" : "gone");
    expect(await scene.call("DEL", conf)).toMatchObject({ exit: 0 });
    await scene.expectOthersUntouched("gone");

    await scene.annotate({});
    const result = await scene.node.add({ conf });
    await scene.annotate(claims(scene.address));
    expectReadable(await scene.check(result, conf));
    expect(await scene.collect()).toMatchObject({ exit: 0 });
    await scene.expectOthersUntouched("gone");
  });
});

/** All annotations of an object may have 256 KiB together. */
const NEAR_LIMIT = 255 * 1024;
const READ = ["containerID", "podIP", "podIPs", "ipAddrs", "ipAddrsNoIpam", "floatingIPs", "ipv4pools", "ipv6pools", "ipFamilies"];
const HOSTILE: readonly [string, string][] = [
  ["a word of 255 KiB", "x".repeat(NEAR_LIMIT)],
  ["a list of a word of 255 KiB", JSON.stringify(["x".repeat(NEAR_LIMIT)])],
  ["a list of 16 thousand addresses", JSON.stringify(Array.from({ length: 16_000 }, () => "10.60.0.40"))],
  ["16 thousand addresses", Array.from({ length: 16_000 }, (_, index) => `10.61.${index >> 8}.${index & 255}/32`).join(",")],
  ["lists in each other, 127 thousand deep", "[".repeat(NEAR_LIMIT / 2) + "]".repeat(NEAR_LIMIT / 2)],
  ["objects in each other, to the end", '{"a":'.repeat(NEAR_LIMIT / 5)],
  ["control characters", "\u009b31m\u0085\u001b[2J\u007f\r\n2026-01-01T00:00:00Z info ADD done"],
  ["a list of control characters", JSON.stringify([`\u009b31m\u0085${"\u0090".repeat(40_000)}`])],
  ["text that is no Unicode's", JSON.stringify(["\u202eexe.dop\ufeff\ufffe"])],
];

describe("A flood of annotations", () => {
  it.each(HOSTILE)("with %s: is served or refused in few words, and all verbs end", async (_, value) => {
    for (const name of [...READ, "hwAddr", "allowedSourcePrefixes"]) {
      await scene.annotate({ [name]: value });
      const added = await scene.call("ADD", FEATURES);
      expectReadable(added);
      let result = added.json;
      if (added.exit !== 0) {
        await scene.annotate({});
        result = await scene.node.add();
        await scene.annotate({ [name]: value });
      } else if (name.startsWith("podIP")) await scene.annotate({ containerID: "c1", [name]: value });
      else if (name === "containerID") await scene.annotate({ podIPs: `${scene.address}/32`, [name]: value });
      for (const prevResult of [result, undefined]) expectReadable(await scene.check(prevResult, FEATURES));
      const deleted = await scene.call("DEL", FEATURES);
      expect([name, deleted.exit, deleted.stdout]).toEqual([name, 0, ""]);
    }
    await scene.expectOthersUntouched("gone");
  });

  it("of 200 is served, and stays as it is", async () => {
    const flood = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`junk-${index}`, `\u009b${"[".repeat(1200)}`]));
    await scene.annotate(flood);

    const result = await scene.node.add();
    const podIP = result.ips[0]?.address;
    const record = { containerID: "c1", podIP, podIPs: podIP };
    expect(await scene.node.annotations()).toEqual({ ...flood, ...record });
    for (const run of [await scene.check(result), await scene.call("DEL")]) {
      expectReadable(run);
      expect(run).toMatchObject({ exit: 0, stdout: "" });
    }
    expect(await scene.node.annotations()).toEqual({ ...flood, containerID: "c1", podIP: "", podIPs: "" });
    await scene.expectOthersUntouched("gone");
  });

  it("that leaves no room for a record is refused, with all that was taken given back", async () => {
    await scene.annotate({ junk: "x".repeat(256 * 1024 - `${PREFIX}junk`.length) });

    const added = await scene.call("ADD");

    expect(added).toMatchObject({ exit: 1 });
    expectReadable(added);
    await scene.expectOthersUntouched("gone");
    expect(await scene.call("DEL")).toMatchObject({ exit: 0 });
  });
});
