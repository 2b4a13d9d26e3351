import { apply, expressionOf, list, probe, remove } from "../../support/dataplane-probe.ts";
import { desiredFor, HOST_INTERFACE, OWNER } from "../../support/desired-state.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node, type Pod } from "../../support/node.ts";

const BOTH = ["10.60.0.0/32", "fd60::/128"];
const attachmentOf = (pod?: Pod) => ({ sandbox: pod?.netnsPath ?? "", podInterface: "eth0", hostInterface: HOST_INTERFACE, owner: OWNER });

const WAYS = [
  ["one by one", "undefined"],
  ["joined", `new (await import("${process.cwd()}/dataplane/linux/deletions.ts")).JoinedDeletions(host)`],
] as const;

const node = fresh(Node.create);
const pod = fresh(() => node.addPod());

describe("detaching a pod", () => {
  it("removes both ends and their routes, and may be repeated", async () => {
    await apply(node, desiredFor(pod, { addresses: BOTH }));
    expect((await node.leftovers()).links).toEqual([HOST_INTERFACE]);

    for (let times = 0; times < 3; times++) expect((await remove(node, attachmentOf(pod))).error).toBeUndefined();

    await node.expectClean();
    expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
  });

  it("removes an interface of any type that has the name", async () => {
    await node.podIp(pod, "link", "add", "eth0", "type", "bridge");

    expect((await remove(node, attachmentOf(pod))).error).toBeUndefined();

    expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
  });

  it.each(WAYS)(
    "removes the interface of the name too that the container made beside its own, which it renamed (%s)",
    async (_, deletions) => {
      await apply(node, desiredFor(pod, { addresses: BOTH }));
      await node.podIp(pod, "link", "set", "eth0", "down");
      await node.podIp(pod, "link", "set", "eth0", "name", "hidden");
      await node.podIp(pod, "link", "add", "eth0", "type", "bridge");

      const link = expressionOf(attachmentOf(pod));
      const removal = await probe(node, `(async () => byPath(new LinuxDataplane(host, ${deletions})).remove(${link}))()`);

      expect(removal).toEqual({ value: {} });
      await node.expectClean();
      expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
    },
  );

  it.each(WAYS)("asks nothing more when the pair is gone, and does not enter the sandbox (%s)", async (way, deletions) => {
    await apply(node, desiredFor(pod, { addresses: BOTH }));

    const { value, error } = await probe<number[]>(
      node,
      `(async () => {
        const { Sandbox } = await import("${process.cwd()}/lib/system/sandbox.ts");
        const { detach } = await import("${process.cwd()}/dataplane/linux/detach.ts");
        let questions = 0;
        const counted = { route: { request: (request) => { questions++; return host.route.request(request); } } };
        using sandbox = Sandbox.named("${pod.netnsPath}");
        let visits = 0;
        const watched = new Proxy(sandbox, { get: (target, key) => { if (key === "fd") visits++; return Reflect.get(target, key, target); } });
        const deletions = ${deletions.replace("(host)", "(counted)")};
        await detach(counted, { ...${expressionOf(attachmentOf(pod))}, sandbox: watched }, { deletions });
        return [questions, visits];
      })()`,
    );

    // The host end, the sandbox's number, its interface; joined deletions look once more, when it is their turn.
    expect({ value, error }).toEqual({ value: [way === "joined" ? 4 : 3, 1], error: undefined });
    await node.expectClean();
  });

  it("removes the host end by itself when the sandbox is not known any more", async () => {
    await apply(node, desiredFor(pod));

    expect((await remove(node, attachmentOf())).error).toBeUndefined();

    await node.expectClean();
  });

  it("leaves the host end of the pod's next sandbox alone, which has the same name", async () => {
    const [first, second] = [await node.addPod(), await node.addPod()];
    await apply(node, desiredFor(first, { owner: { workload: "default/web" } }));
    await apply(node, desiredFor(second, { owner: { containerId: "cid2", workload: "default/web" } }));

    expect((await remove(node, attachmentOf(first))).error).toBeUndefined();
    expect((await remove(node, attachmentOf())).error).toBeUndefined();

    expect((await node.leftovers()).links).toEqual([HOST_INTERFACE]);
  });

  it("leaves both ends alone when the sandbox that it names is the newer container's as well", async () => {
    await apply(node, desiredFor(pod, { owner: { workload: "default/web" } }));
    await apply(node, desiredFor(pod, { owner: { containerId: "cid2", workload: "default/web" } }));

    expect((await remove(node, attachmentOf(pod))).error).toBeUndefined();

    expect((await node.leftovers()).links).toEqual([HOST_INTERFACE]);
    expect((await node.podIp(pod, "-j", "link", "show", "eth0")).map(({ ifname }) => ifname)).toEqual(["eth0"]);
  });

  it("succeeds when the sandbox is gone", async () => {
    await apply(node, desiredFor(pod));
    await node.removePod(pod);

    expect((await remove(node, attachmentOf(pod))).error).toBeUndefined();
    await node.expectClean();
  });

  it("names an interface that the kernel does not let go", async () => {
    const { error } = await remove(node, { ...attachmentOf(pod), podInterface: "lo" });

    expect(error?.word).toBe("link-failed");
    expect(error?.message).toMatch(/^failed to clean up workload's pod interface inside netns: lo in .*: operation not supported/);
  });

  it("gives up when the kernel takes longer than the limit", async () => {
    // No limit at all is still enough for a kernel that is quick just then: the deletion takes half a millisecond on its thread.
    // Without the owner's name on its host end, the pair is deleted from the sandbox.
    const { error } = await probe(
      node,
      `(async () => {
        const { detach } = await import("${process.cwd()}/dataplane/linux/detach.ts");
        const { Sandbox } = await import("${process.cwd()}/lib/system/sandbox.ts");
        using sandbox = Sandbox.named("${pod.netnsPath}");
        for (let times = 0; times < 20; times++) {
          await apply(${expressionOf(desiredFor(pod))}, false);
          Bun.spawnSync(["/usr/sbin/ip", "link", "set", "${HOST_INTERFACE}", "alias", ""]);
          await detach(host, { ...${expressionOf(attachmentOf(pod))}, sandbox }, { limitMs: 0 });
        }
      })()`,
    );

    expect(error).toMatchObject({
      word: "link-delete-timeout",
      message: expect.stringContaining(`timed out deleting device in netns ${pod.netnsPath}`),
    });
  });
});

describe("the links of a host", () => {
  it("are listed with their owners, and removed only while they still are what they were", async () => {
    for (const name of ["cali1", "cali2", "cali3"]) {
      await apply(
        node,
        desiredFor(await node.addPod(), { host: name, owner: { containerId: name, workload: "default/web" }, addresses: [] }),
      );
    }
    await node.ip("link", "add", "cali4", "type", "veth");

    const { value = [] } = await list(node);
    const found = value.map(({ hostInterface, owner }) => [hostInterface, owner]).sort();
    const ownerOf = (containerId: string) => ({ ...OWNER, containerId, workload: "default/web" });
    expect(found).toEqual(["cali1", "cali2", "cali3"].map((name) => [name, ownerOf(name)]));

    await node.ip("link", "set", "cali2", "alias", "mine now");
    for (const link of value.filter(({ hostInterface }) => hostInterface !== "cali3")) {
      expect((await remove(node, link)).error).toBeUndefined();
    }
    expect((await node.leftovers()).links.sort()).toEqual(["cali2", "cali3", "cali4", "veth0"]);
  });

  it.each([
    ["up", ["up"]],
    ["somebody's by its alias", ["alias", "somebody"]],
    ["out of the group", ["group", "0"]],
  ])("L5: is left alone when nobody finished it and it is %s by the time it is removed", async (_, change) => {
    await node.ip("link", "add", "cali1", "type", "veth", "peer", "name", "peer1");
    await node.ip("link", "set", "cali1", "group", String(0x544f5254));
    const { value: [found] = [] } = await list(node);
    expect(found).toEqual({ hostInterface: "cali1", index: expect.any(Number) });
    if (found === undefined) return;

    await node.ip("link", "set", "cali1", ...change);
    expect((await remove(node, found)).error).toBeUndefined();
    expect((await node.leftovers()).links).toContain("cali1");
  });
});
