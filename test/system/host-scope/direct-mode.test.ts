/** Host scope without the agent: the executables on the ranges of `node.json` (A§4, A§11.6). */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { type NodeRecordOptions, writeNodeRecordFor } from "../../support/host-scope-node.ts";
import { Node } from "../../support/node.ts";

const HOST_SCOPE = { ipam: { type: "tortie-host-scope" }, cniVersion: "1.1.0" };
const DUAL: NodeRecordOptions = { ipv4: "10.62.0.0/24", ipv6: "fd62::/64" };

const node = fresh(() => Node.create({ binds: { "/run/tortie": "run" } }));
const run = () => join(node.dir, "run");
const conf = () => localConf(node, HOST_SCOPE);
const grants = (family: 4 | 6) => readdirSync(join(run(), `state/ipam/v${family}`)).sort();

describe("host scope without an agent", () => {
  it("A-I05: attaches a pod with an address of each family, checks it, and releases both", async () => {
    writeNodeRecordFor(run(), DUAL);
    const pod = await node.addPod();
    const added = await node.cni("ADD", { pod, conf: conf() });
    expect(added).toMatchObject({
      exit: 0,
      json: {
        ips: [
          { address: "10.62.0.1/32", interface: 1 },
          { address: "fd62::1/128", interface: 1 },
        ],
        routes: [{ dst: "10.62.0.1/32" }, { dst: "fd62::1/128" }],
      },
    });
    expect([grants(4), grants(6)]).toEqual([["10.62.0.1"], ["fd62::1"]]);
    expect(await node.ip("-j", "route", "show", "10.62.0.1")).toEqual([expect.objectContaining({ dst: "10.62.0.1", scope: "link" })]);
    const grant = JSON.parse(readFileSync(join(run(), "state/ipam/v4/10.62.0.1"), "utf8"));
    expect(grant).toMatchObject({ attachment: { network: "net1", "container-id": "cid1", ifname: "eth0" } });
    expect(await node.cni("CHECK", { pod, conf: { ...conf(), prevResult: added.json } })).toMatchObject({ exit: 0, stdout: "" });

    expect(await node.cni("DEL", { pod, conf: conf() })).toMatchObject({ exit: 0, stdout: "" });
    expect(grants(4)).toEqual([expect.stringMatching(/^10\.62\.0\.1\.released-\d+$/)]);
    expect(grants(6)).toEqual([expect.stringMatching(/^fd62::1\.released-\d+$/)]);
    expect(await node.cni("DEL", { pod, conf: conf() })).toMatchObject({ exit: 0, stdout: "" });
    expect((await node.leftovers()).links).toEqual([]);
  });

  it("masquerades what leaves the node's ranges", async () => {
    writeNodeRecordFor(run(), { ipv4: "10.62.0.0/24" });
    expect(await node.cni("ADD", { pod: await node.addPod(), conf: conf() })).toMatchObject({ exit: 0 });
    const rules = await node.run(["/usr/sbin/nft", "list", "ruleset"]);
    expect(rules.stdout).toContain("10.62.0.0/24");
    expect(rules.stdout).toContain("masquerade");
  });

  it("fails CHECK of an address that was released behind the container's back", async () => {
    writeNodeRecordFor(run(), DUAL);
    node.excuse("its grant is removed behind its back", "not-granted");
    const pod = await node.addPod();
    const added = await node.cni("ADD", { pod, conf: conf() });
    await node.run(["/bin/sh", "-c", "rm /run/tortie/state/ipam/v4/*"]);
    expect(await node.cni("CHECK", { pod, conf: { ...conf(), prevResult: added.json } })).toMatchObject({
      exit: 1,
      json: { code: 999, msg: expect.stringContaining("10.62.0.1/32"), details: expect.stringContaining("check-failed") },
    });
  });

  it("keeps nothing of an ADD when one family is full", async () => {
    writeNodeRecordFor(run(), { ipv4: "10.62.0.0/31", ipv6: "fd62::/64" });
    const added = await node.cni("ADD", { pod: await node.addPod(), conf: conf() });
    expect(added).toMatchObject({ exit: 1, json: { details: expect.stringContaining("addresses-exhausted") } });
    expect(grants(6)).toEqual([]);
    expect((await node.leftovers()).links).toEqual([]);
  });

  it("releases with GC what the runtime does not know, of this network, and keeps the node's own", async () => {
    writeNodeRecordFor(run(), { ipv4: "10.62.0.0/24" });
    for (const containerId of ["cid1", "cid2", "cid3"]) await node.cni("ADD", { pod: await node.addPod(), containerId, conf: conf() });
    await node.cni("ADD", { pod: await node.addPod(), containerId: "other", conf: { ...conf(), name: "net2" } });
    const valid = [{ containerID: "cid2", ifname: "eth0" }];
    expect(await node.cni("GC", { conf: { ...conf(), "cni.dev/valid-attachments": valid } })).toMatchObject({ exit: 0, stdout: "" });
    expect(grants(4).filter((name) => !name.includes("released"))).toEqual(["10.62.0.2", "10.62.0.4"]);
  });

  it("A-C08: says with STATUS and ADD that the range is not known, and deletes all the same", async () => {
    const pod = await node.addPod();
    expect(await node.cni("STATUS", { conf: conf() })).toMatchObject({ exit: 1, json: { code: 50 } });
    expect(await node.cni("ADD", { pod, conf: conf() })).toMatchObject({
      exit: 1,
      json: { code: 11, details: expect.stringContaining("node-cidr-missing") },
    });
    expect(await node.cni("DEL", { pod, conf: conf() })).toMatchObject({ exit: 0, stdout: "" });
    writeNodeRecordFor(run(), { ipv4: "10.62.0.0/24", bootId: "another boot" });
    expect(await node.cni("ADD", { pod, conf: conf() })).toMatchObject({ exit: 1, json: { code: 11 } });
    writeNodeRecordFor(run(), { ipv4: "10.62.0.0/24" });
    expect(await node.cni("STATUS", { conf: conf() })).toMatchObject({ exit: 0 });
    expect(await node.cni("ADD", { pod, conf: conf() })).toMatchObject({ exit: 0 });
  });

  it("undoes an ADD that was killed after its grant with the next ADD", async () => {
    writeNodeRecordFor(run(), { ipv4: "10.62.0.0/24" });
    const attachment = { network: "net1", "container-id": "cid1", ifname: "eth0" };
    const line = JSON.stringify({ attachment, token: "t", "granted-at": new Date().toISOString() });
    await node.run(["/bin/sh", "-c", `mkdir -p /run/tortie/state/ipam/v4 && echo '${line}' > /run/tortie/state/ipam/v4/10.62.0.1`]);
    const added = await node.cni("ADD", { pod: await node.addPod(), conf: conf() });
    expect(added).toMatchObject({ exit: 0, json: { ips: [{ address: "10.62.0.2/32" }] } });
    expect(grants(4)).toEqual([expect.stringMatching(/^10\.62\.0\.1\.released-\d+$/), "10.62.0.2"]);
  });
});
