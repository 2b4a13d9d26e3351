/** firewalld beside the agent's table of policy: neither touches what the other has made, and a packet passes where both let it. */
import { Firewalld, HAS_FIREWALLD } from "../../support/firewalld.ts";
import { fresh } from "../../support/fixtures.ts";
import { eventually, PolicyAgentNode, policy } from "../../support/policy-agent.ts";
import { machineBeyond, type Place, reach } from "../../support/policy-node.ts";

const PODS = "10.244.0.0/16";
const HOST = "172.20.1.1";
const OUTSIDE = "172.20.1.2";
const NODE_PORT = 30080;

const world = fresh(PolicyAgentNode.create);

const CLIENTS = { podSelector: { matchLabels: { app: "client" } } };
const allow = (...from: readonly object[]) =>
  policy("allow", { podSelector: { matchLabels: { app: "web" } }, ingress: [{ from, ports: [{ protocol: "TCP", port: 80 }] }] });

const serving = (name: string) => world.serving(name, { app: name }, [80, 81]);

(HAS_FIREWALLD ? describe : describe.skip)("firewalld beside an agent that enforces policy", () => {
  it("is not touched by what the agent does, nor touches its table, and both are heard", async () => {
    await using wall = await Firewalld.start(world.node);
    await wall.command("--set-default-zone=block");
    world.write("allow", allow(CLIENTS));
    const [web, client, other] = [await serving("web"), await serving("client"), await serving("other")];
    const judged = async () =>
      (await Promise.all([reach(client, web, "tcp", 80), reach(client, web, "tcp", 81), reach(other, web, "tcp", 80)])).join();
    // firewalld answers what it rejects; what policy does not allow is dropped before.
    expect(await eventually("No route to host,timeout,timeout", judged)).toBe("No route to host,timeout,timeout");

    await wall.command("--zone=trusted", `--add-source=${PODS}`);
    expect(await eventually("ok,timeout,timeout", judged)).toBe("ok,timeout,timeout");
    const own = await world.table();
    for (const args of [["--reload"], ["--complete-reload"]]) {
      await wall.command(...args);
      await wall.command("--zone=trusted", `--add-source=${PODS}`);
      expect(await world.table()).toBe(own);
      expect(await judged()).toBe("ok,timeout,timeout");
    }

    const before = await wall.table();
    world.remove("allow");
    expect(await eventually("ok,ok,ok", judged)).toBe("ok,ok,ok");
    world.write("allow", allow());
    expect(await eventually("ok,timeout,ok", judged)).toBe("ok,timeout,ok");
    await world.agent.kill();
    await world.agent.restart();
    await world.detach(await serving("passing"));
    expect(await wall.table()).toBe(before);
    for (const pod of [web, client, other]) await world.detach(pod);
  });

  it("forwards a port of the node to a pod, which is judged by the client, and leads a pod to itself", async () => {
    await using wall = await Firewalld.start(world.node);
    await using machine = await machineBeyond(world.node, HOST, OUTSIDE);
    const web = await serving("web");
    await wall.command("--zone=trusted", `--add-source=${PODS}`);
    await wall.command("--zone=public", "--add-interface=eth0");
    const forward = `port=${NODE_PORT}:proto=tcp:toport=80:toaddr=${web.address[4]}`;
    for (const zone of ["public", "trusted"]) await wall.command(`--zone=${zone}`, `--add-forward-port=${forward}`);
    for (const zone of ["public", "trusted"]) await wall.command(`--zone=${zone}`, "--add-masquerade");
    const fromOutside = () => machine.prober.ask<string>("tcp", { to: HOST, port: NODE_PORT });
    expect(await eventually("ok", fromOutside)).toBe("ok");

    world.write("allow", allow({ ipBlock: { cidr: `${HOST}/32` } }));
    expect(await eventually("timeout", fromOutside)).toBe("timeout");
    world.write("allow", allow({ ipBlock: { cidr: `${OUTSIDE}/32` } }));
    expect(await eventually("ok", fromOutside)).toBe("ok");
    const client = await serving("client");
    const toNode = (from: Place) => from.prober.ask<string>("tcp", { to: HOST, port: NODE_PORT });
    expect(await Promise.all([toNode(client), toNode(web)])).toEqual(["timeout", "ok"]);
    for (const pod of [web, client]) await world.detach(pod);
  });
});
