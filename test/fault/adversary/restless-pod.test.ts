/** A privileged pod that works against its own network while it is set up, looked at and taken down: nobody else notices, nothing stays. */
import { resolve } from "node:path";
import { addressesOf, hostEndOf } from "../../support/cni-result.ts";
import { localConf, podArgs } from "../../support/conf.ts";
import { type CniRun, Node } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

const PROGRAM = resolve("test/support/programs/restless-pod.py");
const SECONDS = 10;

describe("A pod with CAP_NET_ADMIN and CAP_NET_RAW that never keeps still", () => {
  it("harms nobody else and leaves nothing, whatever ADD, CHECK, DEL and GC come to see", async () => {
    await using node = await Node.create();
    const [victim, restless] = [await node.addPod(), await node.addPod()];
    const conf = localConf(node, { cniVersion: "1.1.0" });
    const of = { pod: victim, containerId: "victim", args: podArgs("victim") };
    const added = await node.cni("ADD", { ...of, conf });
    expect(added).toMatchObject({ exit: 0 });
    const valid = { ...conf, "cni.dev/valid-attachments": [{ containerID: "victim", ifname: "eth0" }] };

    const caps = ["/usr/bin/setpriv", "--bounding-set=-all,+net_raw,+net_admin", "--inh-caps=-all"];
    const mischief = node.run([...caps, "/usr/bin/python3", PROGRAM, String(SECONDS)], {}, restless);
    let isOver = false;
    void mischief.then(() => {
      isOver = true;
    });
    const runs: CniRun[] = [];
    for (let round = 0; !isOver; round++) {
      const call = { pod: restless, containerId: `restless${round}`, args: podArgs("restless"), conf };
      const run = await node.cni("ADD", call);
      runs.push(run);
      const check = run.json === undefined || run.exit !== 0 ? conf : { ...conf, prevResult: run.json };
      runs.push(await node.cni("CHECK", { ...call, conf: check }), await node.cni("DEL", call), await node.cni("GC", { conf: valid }));
    }
    expect(await mischief).toMatchObject({ exit: 0, stderr: "" });

    // Each call ended by itself, and a failure is one error of CNI that is no defect of ours.
    expect(runs.filter(({ exit }) => exit !== 0 && exit !== 1)).toEqual([]);
    const failures = runs.filter(({ exit }) => exit === 1).map(({ json }) => (json as { details?: string } | undefined)?.details ?? "none");
    expect(failures.filter((details) => /^(internal|none)/.test(details))).toEqual([]);

    expect(await node.cni("GC", { conf: valid })).toMatchObject({ exit: 0 });
    expect(await node.cni("CHECK", { ...of, conf: { ...conf, prevResult: added.json } })).toMatchObject({ exit: 0, stdout: "" });
    const { links, routes } = await node.leftovers();
    const [host, [address]] = [hostEndOf(added.json), addressesOf(added.json)];
    const withoutLinkLocal = routes.filter((route) => !route.startsWith("fe80::/64"));
    expect({ links, routes: withoutLinkLocal }).toEqual({ links: [host], routes: [`${address} dev ${host}`] });
    const { allocated, endpoints } = await readStore(node);
    expect({ allocated: allocated.length, endpoints: endpoints.length }).toEqual({ allocated: 1, endpoints: 1 });

    // And as soon as it keeps still it is served like any other.
    await node.podIp(restless, "link", "del", "eth0").catch(() => undefined);
    await node.podIp(restless, "link", "del", "eth9").catch(() => undefined);
    expect(await node.cni("ADD", { pod: restless, containerId: "calm", args: podArgs("restless"), conf })).toMatchObject({ exit: 0 });
  });
});
