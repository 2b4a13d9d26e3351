import { expressionOf, probe } from "../../support/dataplane-probe.ts";
import { desiredFor, OWNER } from "../../support/desired-state.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node } from "../../support/node.ts";

/** Evaluates an expression in which `joined` is a dataplane that joins deletions, and `requests` counts requests of a group's deletion. */
function joining<T>(node: Node, expression: string) {
  return probe<T>(
    node,
    `(async () => {
      const { JoinedDeletions } = await import("${process.cwd()}/dataplane/linux/deletions.ts");
      const joined = byPath(new LinuxDataplane(host, new JoinedDeletions(host)));
      ${expression}
    })()`,
  );
}

function attachmentOf(host: string, containerId: string) {
  return { hostInterface: host, owner: { ...OWNER, containerId } };
}

const node = fresh(Node.create);

describe("deletions that come together", () => {
  it("remove every link with its routes and its pod end, and no other", async () => {
    const pods = await Promise.all(Array.from({ length: 12 }, () => node.addPod()));
    const states = pods.map((pod, index) =>
      desiredFor(pod, {
        host: `cali${index}`,
        owner: { containerId: `cid${index}` },
        addresses: [`10.60.0.${index}/32`, `fd60::${index + 1}/128`],
      }),
    );
    const links = pods.map((_, index) => attachmentOf(`cali${index}`, `cid${index}`));

    const { value, error } = await joining<{ removals: unknown[]; left: string[]; again: unknown[] }>(
      node,
      `for (const state of [${states.map(expressionOf).join(",")}]) await apply(state, false);
      const links = ${JSON.stringify(links)};
      // The last is another container's since.
      const removals = await Promise.all(links.map((link, index) => joined.remove(index === 11 ? { ...link, owner: { ...link.owner, containerId: "other" } } : link)));
      const left = (await joined.list()).map(({ hostInterface }) => hostInterface);
      const again = await Promise.all(links.slice(0, 11).map((link) => joined.remove(link)));
      return { removals, left, again };`,
    );

    expect(error).toBeUndefined();
    expect(value?.left).toEqual(["cali11"]);
    expect(value?.removals.slice(0, 11)).toEqual(Array(11).fill({}));
    expect(value?.removals[11]).toMatchObject({ keptFor: expect.stringContaining("cid11") });
    expect((await node.leftovers()).links).toEqual(["cali11"]);
    for (const pod of pods.slice(0, 11)) expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
  });

  it("each say whether they have removed their link, or found it gone or another's", async () => {
    for (const name of ["cali0", "cali1", "cali2"]) await node.ip("link", "add", name, "type", "bridge");

    const { value, error } = await probe(
      node,
      `(async () => {
        const { JoinedDeletions } = await import("${process.cwd()}/dataplane/linux/deletions.ts");
        const { getLink } = await import("${process.cwd()}/dataplane/rtnetlink/link.ts");
        const joined = new JoinedDeletions(host);
        const links = ["cali0", "cali1", "cali2"].map((name) => getLink(host.route, { name }));
        const gone = { index: 4711, name: "cali9" };
        return await Promise.all([...links, gone].map((link) => joined.delete(link, ({ name }) => name !== "cali2")));
      })()`,
    );

    expect({ value, error }).toEqual({ value: [true, true, false, false], error: undefined });
    expect((await node.leftovers()).links).toEqual(["cali2"]);
  });

  it("leave no link in a group, whoever comes first", async () => {
    const pods = await Promise.all(Array.from({ length: 8 }, () => node.addPod()));
    const states = pods.map((pod, index) =>
      desiredFor(pod, { host: `cali${index}`, owner: { containerId: `cid${index}` }, addresses: [`10.60.0.${index}/32`] }),
    );
    const links = pods.map((_, index) => attachmentOf(`cali${index}`, `cid${index}`));

    const { error } = await joining(
      node,
      `const states = [${states.map(expressionOf).join(",")}];
      const links = ${JSON.stringify(links)};
      for (let times = 0; times < 5; times++) {
        await Promise.all(states.map((state) => apply(state, false)));
        // Each link is removed twice, at different moments.
        await Promise.all([...links, ...links].map(async (link, index) => {
          if (index % 3 === 0) await Bun.sleep(index % 5);
          await joined.remove(link);
        }));
      }`,
    );

    expect(error).toBeUndefined();
    await node.expectClean();
  });

  it("A10: leave a link alone that is another's when its batch begins", async () => {
    for (const name of ["cali0", "cali1"]) await node.ip("link", "add", name, "type", "bridge");

    const { error } = await probe(
      node,
      `(async () => {
        const { JoinedDeletions } = await import("${process.cwd()}/dataplane/linux/deletions.ts");
        const { readFileSync } = await import("node:fs");
        const link = (name) => ({ name, index: Number(readFileSync("/sys/class/net/" + name + "/ifindex", "utf8")) });
        const deletions = new JoinedDeletions(host);
        await Promise.all([deletions.delete(link("cali0"), () => true), deletions.delete(link("cali1"), () => false)]);
      })()`,
    );

    expect(error).toBeUndefined();
    const [{ group } = {}] = await node.ip("-j", "link", "show", "dev", "cali1");
    expect({ links: (await node.leftovers()).links, group }).toEqual({ links: ["cali1"], group: "default" });
  });

  it("seven:6: leave an unfinished link findable when its batch ended before it was deleted", async () => {
    await node.ip("link", "add", "cali0", "type", "veth", "peer", "name", "cali0p");
    await node.ip("link", "add", "cali1", "type", "veth", "peer", "name", "cali1p");
    // What a batch has done when its process is killed, or when the kernel refuses the group and the link by itself.
    await node.ip("link", "set", "cali0", "group", String(0x544f1234));
    await node.ip("link", "set", "cali1", "group", String(0x544e1234));

    const { value, error } = await joining<string[]>(
      node,
      `const found = await joined.list();
      for (const link of found) await joined.remove(link);
      return found.map(({ hostInterface }) => hostInterface);`,
    );

    expect({ value, error }).toEqual({ value: ["cali0"], error: undefined });
    expect((await node.ip("-j", "link", "show")).map(({ ifname }) => ifname).sort()).toEqual(["cali1", "cali1p", "lo"]);
  });
});
