/** What becomes of policy while its directory is away under a running agent: a real agent, a real kernel, real packets. */
import { renameSync } from "node:fs";
import { fresh } from "../../support/fixtures.ts";
import { eventually, isGrowing, PolicyAgentNode, policy } from "../../support/policy-agent.ts";
import { reach } from "../../support/policy-node.ts";

const world = fresh(() => PolicyAgentNode.create(["--policy-wait-seconds", "1"]));

const CLIENTS = { podSelector: { matchLabels: { app: "client" } } };
const WEB = { podSelector: { matchLabels: { app: "web" } } };
const allow = (...ports: readonly number[]) =>
  policy("allow", { ...WEB, ingress: [{ from: [CLIENTS], ports: ports.map((port) => ({ protocol: "TCP", port })) }] });

const serving = (name: string, app: string) => world.serving(name, { app }, [80, 81]);

async function gaps(): Promise<string> {
  return (await world.agent.request("GET", "/healthz")).text;
}

const hostEnds = async () => (await world.node.ip("-j", "link", "show", "type", "veth")).length;

describe("the packet filter of an agent whose directory of policies goes away", () => {
  it("stays as it is, running flows too; new pods are refused for it, DELs are served, and what has changed comes with the directory", async () => {
    world.write("allow", allow(80, 5001));
    const [web, client, other] = [await serving("web", "web"), await serving("client", "client"), await serving("other", "other")];
    const judged = () => Promise.all([reach(client, web, "tcp", 80), reach(client, web, "tcp", 81), reach(other, web, "tcp", 80)]);
    expect(await eventually("timeout", () => reach(client, web, "tcp", 81))).toBe("timeout");
    await web.prober.ask("sender", { port: 5001, every: 0.01 });
    expect(await client.prober.ask("opens", { name: "t", to: web.address[4], port: 5001 })).toBe("ok");
    const [before, ends] = [await world.table(), await hostEnds()];

    renameSync(world.directory, `${world.directory}-away`);
    await world.agent.until("the gap", async () => (await gaps()).includes(`${world.directory} cannot be read`));
    // Names the directory, and leaves nothing of the pod.
    await expect(world.attach("late")).rejects.toThrow(`policy not ready: waiting for ${world.directory} cannot be read`);
    expect(await hostEnds()).toBe(ends);
    expect(await world.known()).toEqual([web, client, other].map(({ hostInterface }) => hostInterface).sort());
    expect(await world.table()).toBe(before);
    expect(await judged()).toEqual(["ok", "timeout", "timeout"]);
    expect(await isGrowing(client, "t")).toBe(true);
    await world.detach(other);
    expect(await hostEnds()).toBe(ends - 1);
    expect(await Promise.all([reach(client, web, "tcp", 80), reach(client, web, "tcp", 81)])).toEqual(["ok", "timeout"]);

    renameSync(`${world.directory}-away`, world.directory);
    world.write("allow", allow(81, 5001));
    expect(await eventually("ok", () => reach(client, web, "tcp", 81), 30_000)).toBe("ok");
    expect(await reach(client, web, "tcp", 80)).toBe("timeout");
    expect(await isGrowing(client, "t")).toBe(true);
    expect(await gaps()).not.toContain("cannot be read");
    const late = await serving("later", "client");
    expect(await reach(late, web, "tcp", 81)).toBe("ok");
    for (const pod of [web, client, late]) await world.detach(pod);
  });
});
