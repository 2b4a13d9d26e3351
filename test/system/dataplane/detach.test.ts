import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { apply, probe, remove } from "../../support/dataplane-probe.ts";
import { desiredFor, HOST_INTERFACE } from "../../support/desired-state.ts";
import { Node, type Pod } from "../../support/node.ts";

const ALIAS = "tortie:net1/cid1/eth0";
const BOTH = ["10.60.0.0/32", "fd60::/128"];
const attachmentOf = (pod?: Pod) => ({ sandbox: pod?.netnsPath ?? "", podInterface: "eth0", hostInterface: HOST_INTERFACE, alias: ALIAS });

describe("detaching a pod", () => {
  it("removes both ends and their routes, and may be repeated", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    await apply(node, desiredFor(pod, { addresses: BOTH }));
    expect((await node.leftovers()).links).toEqual([HOST_INTERFACE]);

    for (let times = 0; times < 3; times++) expect((await remove(node, attachmentOf(pod))).error).toBeUndefined();

    expect(await node.leftovers()).toEqual({ links: [], routes: [] });
    expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
  });

  it("removes an interface of any type that has the name", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    await node.podIp(pod, "link", "add", "eth0", "type", "bridge");

    expect((await remove(node, attachmentOf(pod))).error).toBeUndefined();

    expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
  });

  it("removes the host end by itself when the sandbox is not known any more", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    await apply(node, desiredFor(pod));

    expect((await remove(node, attachmentOf())).error).toBeUndefined();

    expect(await node.leftovers()).toEqual({ links: [], routes: [] });
  });

  it("leaves the host end of the pod's next sandbox alone, which has the same name", async () => {
    await using node = await Node.create();
    const [first, second] = [await node.addPod(), await node.addPod()];
    await apply(node, desiredFor(first));
    await apply(node, desiredFor(second, { alias: "tortie:net1/cid2/eth0" }));

    expect((await remove(node, attachmentOf(first))).error).toBeUndefined();
    expect((await remove(node, attachmentOf())).error).toBeUndefined();

    expect((await node.leftovers()).links).toEqual([HOST_INTERFACE]);
  });

  it("succeeds when the sandbox is gone", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    await apply(node, desiredFor(pod));
    await node.removePod(pod);

    expect((await remove(node, attachmentOf(pod))).error).toBeUndefined();
    expect(await node.leftovers()).toEqual({ links: [], routes: [] });
  });

  it("says so when the path is no namespace, and still removes the host end", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    await apply(node, desiredFor(pod));
    const file = join(node.dir, "file");
    writeFileSync(file, "x");

    const { error } = await remove(node, { ...attachmentOf(pod), sandbox: file });

    expect(error).toMatchObject({ word: "netns-invalid", message: expect.stringMatching(/^failed to enter netns: unknown FS magic on/) });
    expect(await node.leftovers()).toEqual({ links: [], routes: [] });
  });

  it("names an interface that the kernel does not let go", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();

    const { error } = await remove(node, { ...attachmentOf(pod), podInterface: "lo" });

    expect(error?.word).toBe("link-failed");
    expect(error?.message).toMatch(/^failed to clean up workload's pod interface inside netns: lo in .*: operation not supported/);
  });

  it("gives up when the kernel takes longer than the limit", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();

    // No limit at all is still enough for a kernel that is quick just then: the deletion takes half a millisecond on its thread.
    const { error } = await probe(
      node,
      `(async () => {
        const { detach } = await import("${process.cwd()}/dataplane/linux/detach.ts");
        for (let times = 0; times < 20; times++) {
          await apply(${JSON.stringify(desiredFor(pod))}, false);
          detach(${JSON.stringify(attachmentOf(pod))}, 0);
        }
      })()`,
    );

    expect(error).toMatchObject({
      word: "link-delete-timeout",
      message: expect.stringContaining(`timed out deleting device in netns ${pod.netnsPath}`),
    });
  });
});

describe("looking for a pod end", () => {
  it("tells whether the sandbox has a link of that name", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const has = (name: string, sandbox = pod.netnsPath) => probe(node, `dataplane.hasPodEnd("${sandbox}", "${name}")`);
    expect([await has("lo"), await has("eth0")]).toEqual([{ value: true }, { value: false }]);
    expect(await has("eth0", "/run/netns/absent")).toMatchObject({ error: { word: "netns-missing" } });
  });
});

describe("links that are owned", () => {
  it("are listed by the beginning of their alias, and removed only under the alias they were listed with", async () => {
    await using node = await Node.create();
    for (const name of ["cali1", "cali2", "cali3"]) {
      await apply(
        node,
        desiredFor(await node.addPod(), { host: name, alias: `${name === "cali3" ? "other" : "tortie:net1"}/${name}`, addresses: [] }),
      );
    }

    const { value } = await probe<{ name: string; alias: string }[]>(node, `dataplane.listOwned("tortie:net1/")`);
    expect(value?.sort((a, b) => a.name.localeCompare(b.name))).toEqual([
      { name: "cali1", alias: "tortie:net1/cali1" },
      { name: "cali2", alias: "tortie:net1/cali2" },
    ]);

    await probe(node, `dataplane.removeHostEnd("cali1", "tortie:net1/cali1")`);
    await probe(node, `dataplane.removeHostEnd("cali2", "tortie:net1/somebody")`);
    await probe(node, `dataplane.removeHostEnd("absent", "tortie:net1/absent")`);
    expect((await node.leftovers()).links.sort()).toEqual(["cali2", "cali3"]);
  });
});
