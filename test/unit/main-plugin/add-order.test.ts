/** In which order an ADD has its effects, and takes them back: what end states do not show. */
import { DatastoreError } from "../../../lib/datastore/errors.ts";
import { fresh } from "../../support/fixtures.ts";
import { PodNode } from "../../support/pod-node.ts";
import { serveWeb } from "../../support/web-server.ts";
import { phrases } from "../../support/words.ts";

const node = fresh(PodNode.create);
/** Without a cluster. */
const plain = fresh(PodNode.forContainers);

/** The named effects, in the order in which they happened. */
function inOrder(node: PodNode, ...names: readonly string[]): readonly string[] {
  return node.effects.filter((effect) => names.includes(effect));
}

/** As a process that died before it could write the record: everything else is there. */
function forgetRecord(): void {
  const blank = { containerID: "", podIP: "", podIPs: "" };
  node.annotate(Object.fromEntries(Object.entries(blank).map(([name, value]) => [`cni.projectcalico.org/${name}`, value])));
}

describe("A failed ADD", () => {
  it("takes back the link before the address that it carries", async () => {
    await node.add({ container: "other" });
    await node.del({ container: "other" });
    node.effects.length = 0;
    node.failure = { effect: "write record", error: new DatastoreError("unauthorized", "arranged") };

    await expect(node.add()).rejects.toThrow("arranged");

    expect(inOrder(node, "update block", "apply", "write record", "undo apply")).toEqual([
      "update block",
      "apply",
      "write record",
      "undo apply",
      "update block",
    ]);
  });
});

describe("An ADD that nobody waits for any more", () => {
  it.each([
    ["while addresses are taken", "create handle", ["update block", "update block"]],
    ["while the link is made", "apply", ["update block", "apply", "undo apply", "update block"]],
  ])("is given up %s, and takes back what it has made", async (_, effect, expected) => {
    await node.add({ container: "other" });
    await node.del({ container: "other" });
    node.effects.length = 0;
    const abort = new AbortController();
    node.meanwhile = { effect, work: () => abort.abort(new Error("nobody waits")) };

    await expect(node.add({ signal: abort.signal })).rejects.toMatchObject({ message: "nobody waits" });

    expect(inOrder(node, "update block", "apply", "write record", "undo apply")).toEqual(expected);
    expect(await node.handles()).toEqual({});
    expect([...node.links]).toEqual([]);
  });
});

describe("An ADD on a node without Felix", () => {
  it("guards the node before the container can send", async () => {
    await plain.add();
    expect(inOrder(plain, "node", "apply")).toEqual(["node", "apply"]);
  });
});

describe("The profile of a network", () => {
  it("A1: is there before the record that names it", async () => {
    await plain.add();
    expect(inOrder(plain, "ensure profile net1", "create endpoint")).toEqual(["ensure profile net1", "create endpoint"]);
  });

  it("A1: that cannot be made fails the ADD, and nothing is left", async () => {
    plain.failure = { effect: "ensure profile net1", error: new DatastoreError("unauthorized", "arranged") };
    await expect(plain.add()).rejects.toMatchObject({ failure: "unauthorized" });
    expect(plain.effects).not.toContain("create endpoint");
    expect(await plain.handles()).toEqual({});
    expect([...plain.links]).toEqual([]);
  });

  it("A1: of a further network is there before the record names it too", async () => {
    await plain.add();
    plain.effects.length = 0;
    await plain.add({ network: "net2" });
    expect(inOrder(plain, "ensure profile net2", "update endpoint")).toEqual(["ensure profile net2", "update endpoint"]);
  });
});

describe("A setting that could not be made", () => {
  it("is told in the log, and fails nothing", async () => {
    node.warnings = ["failed to set net/ipv4/conf/x/rp_filter"];
    await node.add();
    expect(node.errors).toEqual(["failed to set net/ipv4/conf/x/rp_filter"]);
  });
});

describe("An ADD after one that was interrupted", () => {
  it("removes the old link before it releases the address that the link carries", async () => {
    await node.add();
    forgetRecord();
    node.effects.length = 0;

    await node.add();

    expect(inOrder(node, "remove link", "update block", "apply")).toEqual(["remove link", "update block", "update block", "apply"]);
    expect(await node.handles()).toEqual({ "net1.c1": 1 });
  });

  it("touches nothing when its record turns out to be there by now, though it was read from memory", async () => {
    await node.add();
    const recorded = node.annotations();
    forgetRecord();
    node.effects.length = 0;
    node.meanwhile = { effect: "create handle", work: () => node.annotate(recorded) };
    await node.add();
    expect(inOrder(node, "remove link")).toEqual([]);
    expect(await node.handles()).toEqual({ "net1.c1": 2 });
  });

  it("leaves address and link of the container's other interface alone, whose record says that they are in use", async () => {
    const eth0 = await plain.add();
    const links = [...plain.links];

    // Both host ends would have one name, so that the second interface cannot be made.
    await expect(plain.add({ interfaceName: "eth1" })).rejects.toMatchObject({ word: "interface-exists" });

    expect([...plain.links]).toEqual(links);
    expect(plain.effects).not.toContain("remove link");
    expect(await plain.handles()).toEqual({ "net1.c1": 1 });
    const [record] = await plain.datastore.endpoints.list();
    expect(record?.value.ipNetworks).toEqual(eth0.ips.map(({ address }) => address));
  });
});

describe("An ADD for an address that the pod's older sandbox has", () => {
  it("removes the older sandbox's link before it releases the address", async () => {
    node.annotate({ "cni.projectcalico.org/ipAddrs": '["10.60.0.9"]' });
    await node.add({ container: "old" });
    node.effects.length = 0;

    const { ips } = await node.add({ container: "new" });

    expect(ips).toMatchObject([{ address: "10.60.0.9/32" }]);
    expect(inOrder(node, "remove link", "update block")).toEqual(["remove link", "update block", "update block"]);
    expect(await node.handles()).toEqual({ "net1.new": 1 });
  });
});

describe("A repeated ADD of a plain container", () => {
  it("touches nothing while the pod end is there", async () => {
    const first = await plain.add();
    plain.effects.length = 0;

    expect((await plain.add()).ips).toEqual(first.ips);

    expect(plain.effects).not.toContain("apply");
  });

  it("makes a pod end that is gone again, with the same address", async () => {
    const first = await plain.add();
    plain.podEnds.clear();
    plain.links.clear();
    plain.effects.length = 0;

    expect((await plain.add()).ips).toEqual(first.ips);

    expect(plain.effects).toContain("apply");
    expect([...plain.podEnds]).toEqual(["eth0"]);
  });

  it("takes an address when its record has none", async () => {
    await plain.add();
    await plain.del();
    plain.podEnds.add("eth0");
    const endpoint = { namespace: "default", name: "worker--1-cni-c1-eth0" };
    const { endpoints } = plain.datastore;
    await plain.add({ container: "c2" });
    const [other] = await endpoints.list();
    if (other === undefined) throw new Error("there is one");
    await endpoints.create(endpoint, { ...other.value, ...endpoint, containerID: "c1", ipNetworks: [] });

    expect((await plain.add()).ips).toHaveLength(1);
    expect(await plain.handles()).toEqual({ "net1.c1": 1, "net1.c2": 1 });
  });

  it("tells the journal before it answers", async () => {
    await plain.add();
    plain.effects.length = 0;
    const commit = async () => {
      await Bun.sleep(1);
      plain.effects.push("noted: commit");
    };
    await plain.add({ journal: { addresses: async () => {}, link: async () => {}, endpoint: async () => {}, commit } });
    plain.effects.push("answered");
    expect(inOrder(plain, "apply", "noted: commit", "answered")).toEqual(["noted: commit", "answered"]);
  });

  it("adds the profile of a second network to the record", async () => {
    await plain.add();
    await plain.add({ network: "net2" });

    const records = (await plain.datastore.endpoints.list()).map(({ value }) => value.profiles);
    expect(records).toEqual([["net1", "net2"]]);
  });
});

describe("The wait for policy", () => {
  const conf = { policy_setup_timeout_seconds: 1, endpoint_status_dir: "/run/tortie-no-such-directory" };

  it("is a pod's, and late policy fails nothing", async () => {
    await node.add({ conf });
    expect(node.errors).toEqual([expect.stringContaining("policy of shop/worker--1-k8s-cart-eth0 is not in place after 1 s")]);
  });

  it("ends when nobody waits any more", async () => {
    const abort = new AbortController();
    node.meanwhile = { effect: "write record", work: () => abort.abort(new Error("nobody waits")) };
    await node.add({ container: "c2", conf: { ...conf, policy_setup_timeout_seconds: 60 }, signal: abort.signal });
    expect(node.errors).toEqual([]);
  });

  it("is never a plain container's", async () => {
    await plain.add({ conf });
    expect(plain.errors).toEqual([]);
  });
});

describe("Readiness gates", () => {
  it("open before the pod is read", async () => {
    const { url } = await serveWeb((_, response) => {
      node.effects.push("gate");
      response.end("ready");
    });

    await node.add({ conf: { readiness_gates: [url] } });

    expect(inOrder(node, "gate", "pod", "get cluster-information default")).toEqual(["get cluster-information default", "gate", "pod"]);
  });
});

describe("G12: a pause that begins while an ADD stands at a gate", () => {
  it("refuses the ADD before it takes an address", async () => {
    const { url } = await serveWeb(async (_, response) => {
      await node.setReady(false);
      // Longer than a look at the readiness counts.
      setTimeout(() => response.end("ready"), 1_100);
    });
    await expect(node.add({ conf: { readiness_gates: [url] } })).rejects.toMatchObject({ word: "cluster-not-ready" });
    expect(await node.handles()).toEqual({});
    expect(inOrder(node, "create handle", "create block", "update block")).toEqual([]);
  });
});

describe("A store of a node without cluster that is being migrated", () => {
  it("refuses an ADD before it takes an address", async () => {
    await plain.setReady(false);
    await expect(plain.add()).rejects.toMatchObject({
      word: "cluster-not-ready",
      message: expect.stringContaining("it is being migrated"),
    });
    expect(inOrder(plain, "create handle", "apply")).toEqual([]);
    await plain.setReady(true);
    await plain.add();
  });
});

describe("The journal of an ADD", () => {
  it("has each part before it takes effect", async () => {
    const note = async (part: string) => {
      await Bun.sleep(1);
      node.effects.push(`noted: ${part}`);
    };
    const journal = {
      addresses: () => note("addresses"),
      link: () => note("link"),
      endpoint: () => note("endpoint"),
      commit: () => note("commit"),
    };
    const result = await node.add({ journal });
    node.effects.push("answered");
    expect(result.ips).toHaveLength(1);
    const parts = phrases`noted: addresses, create handle, noted: link, apply, noted: endpoint, write record, noted: commit, answered`;
    expect(inOrder(node, ...parts)).toEqual(parts);
  });
});

describe("Names that Kubernetes does not take", () => {
  it.each([
    ["a container id", { container: "c_1" }],
    ["a network name", { network: "net_1" }],
  ])("in %s refuse an ADD before anything is asked (design §8)", async (_, call) => {
    await expect(node.add(call)).rejects.toMatchObject({ word: "identity-invalid" });
    expect(node.effects).toEqual([]);
  });
});
