/** The agent as a whole: the real executable on the local store, calls of plugins over its real socket, judged by the kernel. */
import { Agent, cniCallBody } from "../../support/agent.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { Node } from "../../support/node.ts";
import { expectNothingLeft } from "../../support/store.ts";

describe("A resident agent on the local store", () => {
  it("serves ADD, CHECK, STATUS, GC and DEL, and leaves nothing", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node);
    const pod = await node.addPod();
    const conf = localConf(node, { cniVersion: "1.1.0", ipam: dualIpam("46") });

    const added = await agent.call("add", cniCallBody(conf, { netns: pod.netnsPath }));
    expect(added).toMatchObject({ status: 200, json: { cniVersion: "1.1.0" } });
    const { ips } = added.json as { ips: { address: string }[] };
    const [link] = await node.podIp(pod, "-j", "address", "show", "eth0");
    expect(ips).toHaveLength(2);
    for (const { address } of ips) {
      const [local = "", prefixlen] = address.split("/");
      expect(link?.addr_info).toContainEqual(expect.objectContaining({ local, prefixlen: Number(prefixlen) }));
    }

    const withResult = { ...conf, prevResult: added.json };
    expect(await agent.call("check", cniCallBody(withResult, { netns: pod.netnsPath }))).toMatchObject({
      status: 200,
      text: "",
    });
    expect(await agent.call("status", cniCallBody(conf, { containerId: "", ifname: "" }))).toMatchObject({ status: 200 });
    expect(await agent.request("GET", "/cni/status")).toMatchObject({ status: 200 });
    const valid = { ...conf, "cni.dev/valid-attachments": [{ containerID: "cid1", ifname: "eth0" }] };
    expect(await agent.call("gc", cniCallBody(valid, { containerId: "", ifname: "" }))).toMatchObject({
      status: 200,
      text: "",
    });
    expect(await node.podIp(pod, "-j", "link", "show", "eth0")).toHaveLength(1);

    expect(await agent.call("del", cniCallBody(withResult, { netns: pod.netnsPath }))).toMatchObject({
      status: 200,
      text: "",
    });
    await expectNothingLeft(node);
    expect(await agent.stop()).toBe(0);
  });
});
