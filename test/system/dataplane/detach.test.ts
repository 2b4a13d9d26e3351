import { apply, expressionOf, list, probe, remove } from "../../support/dataplane-probe.ts";
import { desiredFor, HOST_INTERFACE, OWNER } from "../../support/desired-state.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node } from "../../support/node.ts";

const BOTH = ["10.60.0.0/32", "fd60::/128"];
const ATTACHMENT = { hostInterface: HOST_INTERFACE, owner: OWNER };

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

    for (let times = 0; times < 3; times++) expect((await remove(node, ATTACHMENT)).error).toBeUndefined();

    await node.expectClean();
    expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
  });

  it.each(WAYS)("leaves an interface of the pod end's name that somebody else made (%s)", async (_, deletions) => {
    await apply(node, desiredFor(pod, { addresses: BOTH }));
    await node.podIp(pod, "link", "set", "eth0", "down");
    await node.podIp(pod, "link", "set", "eth0", "name", "hidden");
    await node.podIp(pod, "link", "add", "eth0", "type", "bridge");

    const link = expressionOf(ATTACHMENT);
    const removal = await probe(node, `(async () => byPath(new LinuxDataplane(host, ${deletions})).remove(${link}))()`);

    expect(removal).toEqual({ value: {} });
    await node.expectClean();
    expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo", "eth0"]);
    expect((await remove(node, ATTACHMENT)).value).toEqual({});
    expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo", "eth0"]);
  });

  it.each(WAYS)("finds the link by its alias where its name is not known, and where it was renamed (%s)", async (_, deletions) => {
    for (const hostInterface of ["", HOST_INTERFACE]) {
      await apply(node, desiredFor(pod, { addresses: BOTH }));
      await node.ip("link", "set", HOST_INTERFACE, "down");
      await node.ip("link", "set", HOST_INTERFACE, "name", "renamed");

      const link = expressionOf({ ...ATTACHMENT, hostInterface });
      await probe(node, `(async () => byPath(new LinuxDataplane(host, ${deletions})).remove(${link}))()`);

      await node.expectClean();
    }
  });

  it.each([
    ["names this container", true, []],
    ["names another one", false, [HOST_INTERFACE]],
    ["cannot be asked for", undefined, [HOST_INTERFACE]],
  ])("without an alias, as Calico makes it, goes by the workload's record: it %s", async (_, answer, left) => {
    await apply(node, desiredFor(pod));
    await node.ip("link", "set", HOST_INTERFACE, "alias", "");

    const isRecorded = answer === undefined ? "undefined" : `async () => ${answer}`;
    const { value } = await probe(node, `dataplane.remove({ ...${expressionOf(ATTACHMENT)}, isRecorded: ${isRecorded} })`);

    expect(value).toEqual(left.length === 0 ? {} : { keptFor: "" });
    expect((await node.leftovers()).links).toEqual(left);
  });

  it.each(WAYS)("asks the kernel twice for a link that is there (%s)", async (_, deletions) => {
    await apply(node, desiredFor(pod, { addresses: BOTH }));

    const { value, error } = await probe<number>(
      node,
      `(async () => {
        const { detach } = await import("${process.cwd()}/dataplane/linux/detach.ts");
        let questions = 0;
        const counted = { route: { request: (request) => { questions++; return host.route.request(request); } } };
        await detach(counted, ${expressionOf(ATTACHMENT)}, ${deletions.replace("(host)", "(counted)")});
        return questions;
      })()`,
    );

    // The link by its name, and by its index just before the deletion.
    expect({ value, error }).toEqual({ value: 2, error: undefined });
    await node.expectClean();
  });

  it("leaves the host end of the pod's next sandbox alone, which has the same name", async () => {
    const [first, second] = [await node.addPod(), await node.addPod()];
    await apply(node, desiredFor(first, { owner: { workload: "default/web" } }));
    await apply(node, desiredFor(second, { owner: { containerId: "cid2", workload: "default/web" } }));

    expect((await remove(node, ATTACHMENT)).value).toMatchObject({ keptFor: expect.stringContaining("cid2") });

    expect((await node.leftovers()).links).toEqual([HOST_INTERFACE]);
  });

  it("leaves both ends alone when the sandbox that it names is the newer container's as well", async () => {
    await apply(node, desiredFor(pod, { owner: { workload: "default/web" } }));
    await apply(node, desiredFor(pod, { owner: { containerId: "cid2", workload: "default/web" } }));

    expect((await remove(node, ATTACHMENT)).error).toBeUndefined();

    expect((await node.leftovers()).links).toEqual([HOST_INTERFACE]);
    expect((await node.podIp(pod, "-j", "link", "show", "eth0")).map(({ ifname }) => ifname)).toEqual(["eth0"]);
  });

  it("succeeds when the sandbox is gone", async () => {
    await apply(node, desiredFor(pod));
    await node.removePod(pod);

    expect((await remove(node, ATTACHMENT)).error).toBeUndefined();
    await node.expectClean();
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
