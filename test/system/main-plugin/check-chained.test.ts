/** CHECK of an attachment that plugins behind Tortie changed on purpose: it goes by whether the pod reaches its gateway. */
import { Agent } from "../../support/agent.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { until } from "../../support/kubernetes/until.ts";
import { type JsonRecord, Node, type Pod, REFERENCE_PLUGINS_DIR } from "../../support/node.ts";

const MAC = "02:11:22:33:44:55";

const node = fresh(Node.create);

type Conf = Readonly<Record<string, unknown>>;

/** Adds a pod, and then calls a plugin behind Tortie. @returns the configuration of its CHECK */
async function chained(pod: Pod, plugin: string, change: Conf, conf: Conf = localConf(node, { ipam: dualIpam("46") })): Promise<Conf> {
  const { json } = await node.cni("ADD", { pod, conf });
  const behind = { cniVersion: "1.0.0", name: "net1", type: plugin, ...change, prevResult: json };
  const run = await node.cni("ADD", { plugin: `${REFERENCE_PLUGINS_DIR}/${plugin}`, pod, conf: behind });
  expect(run).toMatchObject({ exit: 0 });
  return { ...conf, prevResult: run.json };
}

/** A way out of the host, as nodes have one: it answers ARP of its pods for what it forwards. */
async function addDefaultRoute(): Promise<void> {
  await node.ip("link", "add", "up0", "type", "bridge");
  await node.ip("address", "add", "192.0.2.9/24", "dev", "up0");
  await node.ip("link", "set", "up0", "up");
  await node.ip("route", "add", "default", "via", "192.0.2.1");
}

const neighbours = (pod: Pod) => node.podIp(pod, "-j", "neigh", "show", "to", "169.254.1.1", "nud", "permanent");
/** Whether the pod's kernel resolves the gateway by ARP; nothing is there to answer an echo. */
async function resolves(pod: Pod): Promise<boolean> {
  await node.run(["/bin/ping", "-c", "1", "-W", "1", "192.0.2.77"], {}, pod);
  const entries = await node.podIp(pod, "-j", "neigh", "show", "to", "169.254.1.1");
  return entries.some(({ lladdr }) => lladdr === "ee:ee:ee:ee:ee:ee");
}

describe("A pod whose MAC the plugin tuning changed", () => {
  it("R7: passes CHECK where the host answers for the gateway", async () => {
    await addDefaultRoute();
    const pod = await node.addPod();
    const conf = await chained(pod, "tuning", { mac: MAC });
    expect(await neighbours(pod)).toEqual([]);
    expect(await resolves(pod)).toBe(true);

    expect(await node.cni("CHECK", { pod, conf })).toMatchObject({ exit: 0, stdout: "" });
  });

  it.each<[string, () => Promise<unknown>]>([
    ["has no default route", async () => undefined],
    ["refuses that route", async () => node.ip("route", "add", "unreachable", "default")],
    [
      "does not answer by proxy",
      async () => {
        await addDefaultRoute();
        await node.run(["/bin/sh", "-c", "for one in /proc/sys/net/ipv4/conf/*/proxy_arp; do echo 0 > $one; done"]);
      },
    ],
  ])("R7: fails CHECK where the host %s: the pod does not reach its gateway", async (_, arrange) => {
    const pod = await node.addPod();
    const conf = await chained(pod, "tuning", { mac: MAC });
    await arrange();
    expect(await resolves(pod)).toBe(false);

    const run = await node.cni("CHECK", { pod, conf });

    expect(run).toMatchObject({ exit: 1, json: { details: expect.stringContaining("check-failed") } });
    expect((run.json as JsonRecord).msg).toMatch(/neighbour 169\.254\.1\.1 of eth0: wanted ee:ee:ee:ee:ee:ee, found missing/);
  });

  it("R7: gets its neighbour back from the agent where the host would not answer", async () => {
    await using agent = await Agent.start(node, { args: ["--max-controller-interval", "1"] });
    const pod = await node.addPod();
    const conf = await chained(pod, "tuning", { mac: MAC }, localConf(node, { agent: "require", agent_socket: agent.socket }));

    await until("the neighbour to be back", async () => (await neighbours(pod)).length === 1);

    expect(await node.cni("CHECK", { pod, conf })).toMatchObject({ exit: 0, stdout: "" });
    expect((await node.podIp(pod, "-j", "link", "show", "eth0"))[0]).toMatchObject({ address: MAC });
  });
});

describe("A pod whose routes the plugin sbr moved into a table of its own", () => {
  it("R7: passes CHECK while the rules lead to that table", async () => {
    const pod = await node.addPod();
    const conf = await chained(pod, "sbr", {});
    expect((await node.podIp(pod, "-j", "route", "show")).map(({ dst }) => dst)).not.toContain("default");
    expect((await node.podIp(pod, "-j", "route", "show", "table", "100")).map(({ dst }) => dst)).toEqual(["169.254.1.1"]);

    expect(await node.cni("CHECK", { pod, conf })).toMatchObject({ exit: 0, stdout: "" });
  });

  it.each<[string, (pod: Pod) => Promise<unknown>]>([
    ["the rule is gone", (pod) => node.podIp(pod, "rule", "del", "table", "100")],
    ["the table is empty", (pod) => node.podIp(pod, "route", "flush", "table", "100")],
  ])("R7: fails CHECK when %s", async (_, damage) => {
    const pod = await node.addPod();
    const conf = await chained(pod, "sbr", {}, localConf(node));
    await damage(pod);

    const run = await node.cni("CHECK", { pod, conf });

    expect(run).toMatchObject({ exit: 1, json: { msg: expect.stringMatching(/pod route 0\.0\.0\.0\/0: .* found missing/) } });
  });
});
