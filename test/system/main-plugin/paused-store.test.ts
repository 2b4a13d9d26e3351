/** A local store that is being migrated: nothing is added to it and nothing taken from it until it is ready again. */
import { openLocalDatastore } from "../../../lib/datastore/local/local-datastore.ts";
import { localConf } from "../../support/conf.ts";
import { Node } from "../../support/node.ts";

describe("a local store that says datastoreReady: false", () => {
  it("refuses ADD, leaves addresses alone on DEL, and serves both when it is ready again", async () => {
    await using node = await Node.create();
    const [first, second] = [await node.addPod(), await node.addPod()];
    const conf = localConf(node);
    expect(await node.cni("ADD", { pod: first, conf, containerId: "c1" })).toMatchObject({ exit: 0 });
    await using store = openLocalDatastore(node.datastorePath);
    const { revision } = await store.clusterInformation.create("default", { datastoreReady: false });

    const refused = await node.cni("ADD", { pod: second, conf, containerId: "c2" });
    expect(refused).toMatchObject({ exit: 1, stdout: expect.stringContaining("cluster-not-ready: ") });
    expect(JSON.stringify(await node.podIp(second, "link", "show"))).not.toContain("eth0");
    expect(await node.cni("DEL", { pod: first, conf, containerId: "c1" })).toMatchObject({ exit: 1 });
    expect((await store.handles.list()).map(({ value }) => value.id)).toEqual([expect.stringContaining("c1")]);

    await store.clusterInformation.delete("default", revision);
    expect(await node.cni("DEL", { pod: first, conf, containerId: "c1" })).toMatchObject({ exit: 0 });
    expect(await store.handles.list()).toEqual([]);
    expect(await node.cni("ADD", { pod: second, conf, containerId: "c2" })).toMatchObject({ exit: 0 });
  });
});
