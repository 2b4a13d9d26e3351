/** `chain: attach` (A§3.8): an endpoint over an interface that another plugin made. */
import { Agent } from "../../support/agent.ts";
import { localConf } from "../../support/conf.ts";
import { Node, REFERENCE_PLUGINS_DIR } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

describe("an endpoint over somebody else's interface", () => {
  it("A-A19: passes the result of bridge on, is there until DEL, and releases nothing", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node);
    const pod = await node.addPod();
    const bridge = {
      cniVersion: "1.0.0",
      name: "net1",
      type: "bridge",
      bridge: "br0",
      ipam: { type: "host-local", subnet: "10.77.0.0/24", dataDir: `${node.dir}/host-local` },
    };
    const made = await node.cni("ADD", { pod, conf: bridge, plugin: `${REFERENCE_PLUGINS_DIR}/bridge` });
    expect(made).toMatchObject({ exit: 0 });
    const before = await node.podIp(pod, "-j", "addr", "show", "eth0");
    const conf = localConf(node, { ...agent.netconf, chain: "attach", prevResult: made.json });

    const added = await node.cni("ADD", { pod, conf });

    expect(added).toMatchObject({ exit: 0, json: made.json });
    const found = await agent.request("GET", "/endpoint/attachment:cid1:eth0");
    expect(found).toMatchObject({ status: 200 });
    expect(found.text).toContain('"attached"');
    expect(found.text).toContain("10.77.0.");
    await agent.restart();
    expect(await agent.request("GET", "/endpoint/container-id:cid1")).toMatchObject({ status: 200 });

    expect(await node.cni("DEL", { pod, conf })).toMatchObject({ exit: 0 });

    expect(await agent.request("GET", "/endpoint/container-id:cid1")).toMatchObject({ status: 404 });
    expect(await node.podIp(pod, "-j", "addr", "show", "eth0")).toEqual(before);
    expect(await readStore(node)).toEqual({ allocated: [], handles: [], endpoints: [] });
    expect(await node.cni("DEL", { pod, conf: bridge, plugin: `${REFERENCE_PLUGINS_DIR}/bridge` })).toMatchObject({ exit: 0 });
  });

  it.each(["require", "off"])("prints an older plugin's result in the version of its own list (agent: %s)", async (mode) => {
    await using node = await Node.create();
    await using agent = await Agent.start(node);
    const pod = await node.addPod();
    const prevResult = {
      cniVersion: "0.3.1",
      interfaces: [{ name: "eth0" }],
      ips: [{ version: "4", interface: 0, address: "10.77.0.2/24" }],
    };
    const conf = localConf(node, { ...agent.netconf, cniVersion: "1.1.0", agent: mode, chain: "attach", prevResult });
    const added = await node.cni("ADD", { pod, conf });
    expect(added).toMatchObject({ exit: 0, json: { cniVersion: "1.1.0", ips: [{ interface: 0, address: "10.77.0.2/24" }] } });
    expect(added.stdout).not.toContain('"version"');
    // Repeated, the agent answers from its record.
    expect((await node.cni("ADD", { pod, conf })).json).toEqual(added.json);
    expect(await node.cni("DEL", { pod, conf })).toMatchObject({ exit: 0 });
  });

  it("is refused without the result of a plugin before it", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const run = await node.cni("ADD", { pod, conf: localConf(node, { chain: "attach", agent: "off" }) });
    expect(run).toMatchObject({ exit: 1, json: { msg: expect.stringContaining("prevResult") } });
  });
});
