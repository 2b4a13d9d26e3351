import { DatastoreError } from "../../../lib/datastore/errors.ts";
import { fresh } from "../../support/fixtures.ts";
import { PodNode } from "../../support/pod-node.ts";
import { phrases } from "../../support/words.ts";

const node = fresh(PodNode.create);

describe("DEL of a pod", () => {
  it("F2: removes the link, then blanks the annotations, then releases the address", async () => {
    await node.add();
    node.effects.length = 0;

    await node.del();

    expect(node.effects.filter((effect) => !effect.startsWith("get cluster"))).toEqual(phrases`
      remove link, clear record, get handle net1.c1, get block 10-60-0-0-26, get ipam-configuration default,
      update block, delete handle, get handle shop.cart
    `);
    expect(await node.handles()).toEqual({});
    expect(node.annotations()).toMatchObject({ "cni.projectcalico.org/containerID": "c1", "cni.projectcalico.org/podIP": "" });
  });

  it("asks four questions when nothing is left", async () => {
    await node.del();
    expect(node.effects.filter((effect) => effect !== "remove link")).toHaveLength(4);
  });

  it.each([
    ["is not ready", async () => node.setReady(false), "Calico is currently not ready to process requests"],
    [
      "cannot be asked",
      async () => {
        node.failure = { effect: "get cluster-information default", error: new DatastoreError("unavailable", "connection refused") };
      },
      "error getting ClusterInformation: connection refused",
    ],
  ])("removes the link and leaves the datastore alone when the cluster %s", async (_, arrange, message) => {
    await node.add();
    const annotated = node.annotations();
    await arrange();

    await expect(node.del()).rejects.toMatchObject({ message });

    expect([...node.links]).toEqual([]);
    expect(await node.handles()).toEqual({ "net1.c1": 1 });
    expect(node.annotations()).toEqual(annotated);
  });

  it("keeps the address while its link is there, and clears the record all the same", async () => {
    await node.add();
    node.failure = { effect: "remove link", error: new Error("device busy") };

    await expect(node.del()).rejects.toMatchObject({ message: "device busy" });

    expect(await node.handles()).toEqual({ "net1.c1": 1 });
    expect(node.annotations()["cni.projectcalico.org/podIP"]).toBe("");
  });

  it("reports the first of two errors, and logs both", async () => {
    await node.add();
    node.failure = { effect: "remove link", error: new Error("device busy") };
    await node.setReady(false);

    await expect(node.del()).rejects.toMatchObject({ message: "device busy" });
    expect(node.errors).toEqual(["could not remove the link", "could not ask the cluster"]);
  });

  it.each(["/etc/hostname", "/proc/self/ns/net", "/tmp", "/run/netns/nothing", ""])(
    "is done whatever its sandbox's path is: %s",
    async (netns) => {
      await node.add();

      await node.del({ netns });

      expect([...node.links]).toEqual([]);
      expect(await node.handles()).toEqual({});
    },
  );

  it("of an interface whose ADD was refused leaves what the container's other interface has", async () => {
    await node.add();
    const annotated = node.annotations();
    await expect(node.add({ interfaceName: "net1" })).rejects.toMatchObject({
      word: "interface-exists",
      message: expect.stringMatching(/eth0.*net1/),
    });

    await node.del({ interfaceName: "net1" });

    expect(node.links.size).toBe(1);
    expect(await node.handles()).toEqual({ "net1.c1": 1 });
    expect(node.annotations()).toEqual(annotated);
  });

  it("W11: needs no file with the node's name where pods have the record", async () => {
    await node.add();
    await node.del({ conf: { nodename: null, nodename_file_optional: false, nodename_file: "/nonexistent/nodename" } });
    expect(await node.handles()).toEqual({});
  });

  it("W11: needs the node's name for a record of etcd, from the file or from nodename", async () => {
    await using etcd = await PodNode.forEtcd();
    await etcd.add();
    const conf = { nodename_file_optional: false, nodename_file: "/nonexistent/nodename" };
    await expect(etcd.del({ conf: { ...conf, nodename: null } })).rejects.toMatchObject({ word: "nodename-file-missing" });
    expect(await etcd.handles()).toEqual({ "net1.c1": 1 });
    await etcd.del({ conf });
    expect(await etcd.handles()).toEqual({});
  });

  it("F2, R5: keeps the address when the pod may not be patched, and reports that", async () => {
    await node.add();
    node.failure = { effect: "clear record", error: new DatastoreError("unauthorized", "forbidden") };

    await expect(node.del()).rejects.toMatchObject({ message: "forbidden" });

    expect(await node.handles()).toEqual({ "net1.c1": 1 });
    node.failure = undefined;
    await node.del();
    expect(await node.handles()).toEqual({});
  });

  it.each<[string, () => void]>([
    ["is gone", () => (node.pod = undefined)],
    ["is another container's by now", () => node.annotate({ "cni.projectcalico.org/containerID": "c2" })],
  ])("F2: releases the address of a pod that %s", async (_, change) => {
    await node.add();
    change();

    await node.del();

    expect(await node.handles()).toEqual({});
  });

  it.each(["allowedSourcePrefixes", "floatingIPs", "hwAddr", "ipAddrs", "podIP", "ipv4pools"])(
    "works whatever the annotation %s says",
    async (annotation) => {
      await node.add();
      node.annotate({ [`cni.projectcalico.org/${annotation}`]: "nonsense" });

      await node.del();

      expect(await node.handles()).toEqual({});
    },
  );

  it("leaves the annotations of a pod that it never served alone", async () => {
    await node.del();
    expect(node.annotations()).toEqual({});
  });

  it.each(["grpc", "bogus"])("takes everything away although ADD refuses the dataplane %s", async (type) => {
    await node.add();
    await node.del({ conf: { dataplane_options: { type } } });
    expect([...node.links]).toEqual([]);
    expect(await node.handles()).toEqual({});
  });

  it("succeeds when no pod is named", async () => {
    await node.del({ args: "" });
    expect(node.effects).not.toContain("clear record");
  });
});
