/** The agent as a whole: the real executable on the local store, calls of plugins over its real socket, judged by the kernel. */
import { Agent } from "../../support/agent.ts";
import { addByAgent, callAgent } from "../../support/agent-calls.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { Node } from "../../support/node.ts";
import { expectNothingLeft } from "../../support/store.ts";

describe("A resident agent on the local store", () => {
  it("serves ADD, CHECK, STATUS, GC and DEL, and leaves nothing", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node);
    const pod = await node.addPod();
    const conf = localConf(node, { cniVersion: "1.1.0", ipam: dualIpam("46") });

    // The agent opens the sandbox by itself: this caller has not looked at it.
    const call = { netns: { path: pod.netnsPath } };
    const { json, prefixes } = await addByAgent(agent, conf, call);
    expect(json).toMatchObject({ cniVersion: "1.1.0" });
    const [link] = await node.podIp(pod, "-j", "address", "show", "eth0");
    expect(prefixes).toHaveLength(2);
    for (const prefix of prefixes) {
      const [local = "", prefixlen] = prefix.split("/");
      expect(link?.addr_info).toContainEqual(expect.objectContaining({ local, prefixlen: Number(prefixlen) }));
    }

    const withResult = { ...conf, prevResult: json };
    expect(await callAgent(agent, "check", withResult, call)).toMatchObject({ status: 200, text: "" });
    const ofNobody = { containerId: "", ifname: "" };
    expect(await callAgent(agent, "status", conf, ofNobody)).toMatchObject({ status: 200 });
    const valid = { ...conf, "cni.dev/valid-attachments": [{ containerID: "cid1", ifname: "eth0" }] };
    expect(await callAgent(agent, "gc", valid, ofNobody)).toMatchObject({ status: 200, text: "" });
    expect(await node.podIp(pod, "-j", "link", "show", "eth0")).toHaveLength(1);

    expect(await callAgent(agent, "del", withResult, call)).toMatchObject({ status: 200, text: "" });
    await expectNothingLeft(node);
    expect(await agent.stop()).toBe(0);
  });
});
