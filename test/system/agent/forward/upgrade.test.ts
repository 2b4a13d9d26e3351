/** An agent that ends and starts again, as an upgrade does it, while a runtime adds and deletes pods (A§11.6). */
import { Agent } from "../../../support/agent.ts";
import { localConf } from "../../../support/conf.ts";
import { until } from "../../../support/kubernetes/until.ts";
import { Node } from "../../../support/node.ts";
import { readStore } from "../../../support/store.ts";

const PODS = 20;
/** As many calls are under way at once; the others come while the agent is away and after it. */
const WORKERS = 4;

describe("a runtime's calls while the agent is replaced", () => {
  it("A-A14: all succeed, and nothing is left when every pod is gone", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node);
    const conf = localConf(node, { cniVersion: "1.1.0", ...agent.netconf, agent_wait_seconds: 60 });
    const names = Array.from({ length: PODS }, (_, index) => `cid${index}`);
    const failed: unknown[] = [];
    const call = async (command: string, options: Parameters<Node["cni"]>[1]) => {
      const { exit, stdout, stderr } = await node.cni(command, options);
      if (exit !== 0) failed.push({ command, containerId: options.containerId, exit, stdout, stderr });
    };
    let done = 0;
    const work = async () => {
      for (let containerId = names.shift(); containerId !== undefined; containerId = names.shift()) {
        const pod = await node.addPod();
        await call("ADD", { pod, containerId, conf });
        await call("DEL", { pod, containerId, conf });
        done++;
      }
    };
    const working = Promise.all(Array.from({ length: WORKERS }, work));
    await agent.until("the first pods", () => done >= 2);
    const before = agent.pid;
    await agent.restart();
    await working;

    expect(failed).toEqual([]);
    expect(agent.pid).not.toBe(before);
    // A DEL that found no agent is in its queue, and carried out by the next one.
    await until("an empty node", async () => {
      const { allocated, handles, endpoints } = await readStore(node);
      const known = (await agent.request("GET", "/endpoint")).json;
      const { links, routes } = await node.leftovers();
      return [allocated, handles, endpoints, known, links, routes].every((list) => Array.isArray(list) && list.length === 0);
    });
  });
});
