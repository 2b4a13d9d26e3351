/** What a real agent mends while its pods run, judged by the kernel. */
import { Agent } from "../../support/agent.ts";
import { addByAgent } from "../../support/agent-calls.ts";
import { localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node } from "../../support/node.ts";

/** Drift is looked for every second here. */
const OFTEN = { args: ["--max-controller-interval", "1"] };

const node = fresh(Node.create);
const agent = fresh(() => Agent.start(node, OFTEN));

async function add() {
  const pod = await node.addPod();
  const { addresses, hostEnd } = await addByAgent(agent, localConf(node), { pod });
  return { pod, address: addresses[0] ?? "", hostInterface: hostEnd };
}

const routesTo = (address: string) => node.ip("-j", "route", "show", address);

describe("An agent whose pods' links are changed by hand", () => {
  it("A-G02: puts a route and a setting back, and counts it", async () => {
    const { address, hostInterface } = await add();
    const setting = `net/ipv4/conf/${hostInterface}/forwarding`;
    const before = await node.sysctl(setting);
    expect(await routesTo(address)).toHaveLength(1);

    await node.ip("route", "del", address);
    await agent.until("the route is back", async () => (await routesTo(address)).length === 1);
    await node.run(["/bin/sh", "-c", `echo 0 >/proc/sys/${setting}`]);
    await agent.until("the setting is back", async () => (await node.sysctl(setting)) === before);

    expect((await agent.request("GET", "/metrics")).text).toMatch(/tortie_sweep_findings_total\{kind="drift"\} [1-9]/);
  });

  it("A-G02: leaves a route alone that is taken away a fourth time, and says so", async () => {
    const { address } = await add();
    for (let time = 0; time < 3; time++) {
      await node.ip("route", "del", address);
      await agent.until("the route is back", async () => (await routesTo(address)).length === 1);
    }
    await node.ip("route", "del", address);
    await agent.until("the finding", async () => (await agent.request("GET", "/healthz")).text.includes("drift-contested"));
    expect(await routesTo(address)).toEqual([]);
  });

  it("A-G01: makes the link of a pod that lives again, with its address", async () => {
    const { pod, address, hostInterface } = await add();
    const [before] = await node.podIp(pod, "-j", "address", "show", "eth0");

    await node.ip("link", "del", hostInterface);
    await agent.until("the link is back", async () => {
      const links = await node.podIp(pod, "-j", "address", "show").catch(() => []);
      return links.some(({ ifname }) => ifname === "eth0") && (await routesTo(address)).length === 1;
    });

    const [after] = await node.podIp(pod, "-j", "address", "show", "eth0");
    expect(after?.address).toBe(before?.address);
    expect(JSON.stringify(after?.addr_info)).toContain(`"${address}"`);
  });
});
