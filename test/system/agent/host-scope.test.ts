/** Host scope in a real agent, and beside it (A§1, A§4, A§11.6). */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { granted, grantOf, HOST_SCOPE, hostScopeConf } from "../../support/host-scope-agent.ts";
import { Node } from "../../support/node.ts";

/** Waits until it has a range. */
async function start(args: readonly string[] = HOST_SCOPE): Promise<Agent> {
  const agent = await Agent.start(node, { args: ["--ipam-strategy", "contiguous", ...args] });
  await hasRecord(agent, ({ ipv4 }) => ipv4 !== undefined);
  return agent;
}

function record(agent: Agent): {
  readonly ipv4?: { readonly cidr: string; readonly source: string };
  readonly exclusions: readonly unknown[];
} {
  return JSON.parse(readFileSync(join(agent.runDir, "state/node.json"), "utf8"));
}

async function hasRecord(agent: Agent, isRight: (found: ReturnType<typeof record>) => boolean): Promise<void> {
  await agent.until("node.json", () => {
    try {
      return isRight(record(agent));
    } catch {
      return false;
    }
  });
}

/** A link of the host's own, which is up. */
async function addEth1(address: string): Promise<void> {
  await node.ip("link", "add", "eth1", "type", "veth", "peer", "name", "wire");
  await node.ip("addr", "add", address, "dev", "eth1");
  for (const link of ["wire", "eth1"]) await node.ip("link", "set", link, "up");
}

const node = fresh(Node.create);

describe("an agent with ranges of its own", () => {
  it("A-A01: gives a pod an address, keeps it over a restart, and releases it", async () => {
    await using agent = await start();
    await hasRecord(agent, ({ ipv4 }) => ipv4?.cidr === "10.62.0.0/24" && ipv4.source === "flag");
    const conf = hostScopeConf(agent);
    const pod = await node.addPod();
    const added = await node.cni("ADD", { pod, conf });
    expect(added).toMatchObject({ exit: 0, json: { ips: [{ address: "10.62.0.3/32", interface: 1 }] } });
    expect(granted(agent)).toEqual(["10.62.0.1", "10.62.0.2", "10.62.0.3"]);
    await agent.restart();
    expect(await node.cni("ADD", { pod: await node.addPod(), containerId: "second", conf })).toMatchObject({
      json: { ips: [{ address: "10.62.0.4/32" }] },
    });
    expect(await node.cni("CHECK", { pod, conf: { ...conf, prevResult: added.json } })).toMatchObject({ exit: 0 });
    expect(await node.cni("DEL", { pod, conf })).toMatchObject({ exit: 0, stdout: "" });
    expect(granted(agent)).toEqual(["10.62.0.1", "10.62.0.2", "10.62.0.4"]);
  });

  it("gives addresses of them to a network that names no IPAM plugin", async () => {
    await using agent = await start();
    const { ipam: _, ...conf } = hostScopeConf(agent);
    const pod = await node.addPod();
    expect(await node.cni("ADD", { pod, conf })).toMatchObject({ exit: 0, json: { ips: [{ address: "10.62.0.3/32" }] } });
    expect(await node.cni("DEL", { pod, conf })).toMatchObject({ exit: 0, stdout: "" });
    expect(granted(agent)).toEqual(["10.62.0.1", "10.62.0.2"]);
    // Another one's name stays.
    const other = { ...conf, ipam: { type: "tortie-ipam", pools: [{ cidr: "10.98.0.0/24" }] } };
    expect(await node.cni("ADD", { pod, conf: other })).toMatchObject({
      exit: 0,
      json: { ips: [{ address: expect.stringMatching(/^10\.98\.0\.\d+\/32$/) }] },
    });
  });

  it("A-C07: leaves its ranges to plugins that work without it", async () => {
    await using agent = await start();
    await agent.kill();
    const conf = hostScopeConf(agent, { agent: "off" });
    const pod = await node.addPod();
    expect(await node.cni("ADD", { pod, conf })).toMatchObject({ exit: 0, json: { ips: [{ address: "10.62.0.3/32" }] } });
    await agent.restart();
    const second = await node.addPod();
    expect(await node.cni("ADD", { pod: second, containerId: "second", conf: hostScopeConf(agent) })).toMatchObject({
      exit: 0,
      json: { ips: [{ address: "10.62.0.4/32" }] },
    });
    expect(await node.cni("DEL", { pod, conf })).toMatchObject({ exit: 0 });
    expect(granted(agent)).toEqual(["10.62.0.1", "10.62.0.2", "10.62.0.4"]);
  });

  it("grants a restored pod its address again when the file is lost, and reports one that somebody else has by now", async () => {
    await using agent = await start();
    const conf = hostScopeConf(agent);
    const [lost, taken] = [await node.addPod(), await node.addPod()];
    await node.cni("ADD", { pod: lost, containerId: "lost", conf });
    await node.cni("ADD", { pod: taken, containerId: "taken", conf });
    await agent.kill();
    const before = JSON.parse(readFileSync(grantOf(agent, "10.62.0.3"), "utf8"));
    const theirs = `${JSON.stringify({ owner: "client", token: "theirs", "granted-at": "2026-01-01T00:00:00.000Z" })}\n`;
    rmSync(grantOf(agent, "10.62.0.3"));
    writeFileSync(grantOf(agent, "10.62.0.4"), theirs);

    await agent.restart();
    const { attachment } = before;
    expect(JSON.parse(readFileSync(grantOf(agent, "10.62.0.3"), "utf8"))).toMatchObject({ attachment });
    const conflict = "address-conflict: 10.62.0.4 of endpoint";
    expect((await agent.request("GET", "/healthz")).text).toContain(conflict);
    expect(agent.log).toContain(conflict);
    expect(await node.cni("ADD", { pod: await node.addPod(), containerId: "next", conf })).toMatchObject({
      json: { ips: [{ address: "10.62.0.5/32" }] },
    });

    for (const [pod, containerId] of [[lost, "lost"] as const, [taken, "taken"] as const]) {
      expect(await node.cni("DEL", { pod, containerId, conf })).toMatchObject({ exit: 0 });
    }
    expect(granted(agent)).toEqual(["10.62.0.1", "10.62.0.2", "10.62.0.4", "10.62.0.5"]);
    expect(readFileSync(grantOf(agent, "10.62.0.4"), "utf8")).toBe(theirs);
    await agent.until("the finding goes", async () => !(await agent.request("GET", "/healthz")).text.includes(conflict));
  });

  it("A-I05: shares its range with plugins that work beside it: no address twice", async () => {
    await using agent = await start();
    const pods = await Promise.all(Array.from({ length: 16 }, () => node.addPod()));
    const runs = await Promise.all(
      pods.map((pod, index) =>
        node.cni("ADD", { pod, containerId: `c${index}`, conf: hostScopeConf(agent, { agent: index % 2 === 0 ? "require" : "off" }) }),
      ),
    );
    for (const run of runs) expect(run).toMatchObject({ exit: 0 });
    const routes = (await node.ip("-j", "route", "show")).map(({ dst }) => String(dst));
    expect(new Set(routes).size).toBe(16);
    expect(granted(agent)).toHaveLength(18);
  });

  it("A-I04: excludes half of its range while the host routes it elsewhere; a wider route excludes nothing, and is reported", async () => {
    await addEth1("192.0.2.1/24");
    await node.ip("route", "add", "10.62.0.0/25", "via", "192.0.2.2");
    await node.ip("route", "add", "10.0.0.0/8", "via", "192.0.2.2");
    await using agent = await start();
    await hasRecord(agent, ({ exclusions }) => exclusions.length > 0);
    expect(record(agent).exclusions).toEqual([{ cidr: "10.62.0.0/25", reason: "route 10.62.0.0/25 dev eth1" }]);
    expect(agent.log).toContain("range-shadowed: route 10.0.0.0/8 dev eth1 is wider than the range 10.62.0.0/24");
    const added = await node.cni("ADD", { pod: await node.addPod(), conf: hostScopeConf(agent) });
    expect(added).toMatchObject({ json: { ips: [{ address: "10.62.0.130/32" }] } });
  });

  it("S1: excludes nothing for a route that an agent made to another node, whatever that node said", async () => {
    await addEth1("192.0.2.1/24");
    for (const claimed of ["10.62.0.0/25", "10.62.0.0/24", "10.0.0.0/8"]) {
      await node.ip("route", "add", claimed, "via", "192.0.2.66", "proto", "84");
    }
    await node.ip("route", "add", "10.62.0.240/28", "via", "192.0.2.2");
    await using agent = await start();
    await hasRecord(agent, ({ exclusions }) => exclusions.length > 0);
    expect(record(agent).exclusions).toEqual([{ cidr: "10.62.0.240/28", reason: "route 10.62.0.240/28 dev eth1" }]);
    expect(agent.log).not.toContain("range-shadowed");
  });

  it("makes a range of the host's address where there is no cluster", async () => {
    await addEth1("192.0.2.77/24");
    await using agent = await start(["--ipam", "host-scope"]);
    expect(record(agent)).toMatchObject({
      ipv4: { cidr: "10.77.0.0/16", source: "automatic" },
      ipv6: { cidr: "f00d::a4d:0:0:0/96", source: "automatic" },
    });
  });

  it("A-C05: does not start with a range that is none, and names it", async () => {
    for (const bad of ["10.0.0.0/33", "atuo"]) {
      await using agent = await Agent.start(node, { args: ["--ipv4-range", bad], until: "none", runDir: `run-${bad.length}` });
      expect(await agent.ended).toBe(1);
      expect(agent.log).toContain(JSON.stringify(bad));
    }
  });

  it("A-P03, A-P05, A-P06, A-P07: serves IPAM over its API, and keeps grants over a restart", async () => {
    await using agent = await start(["--ipam", "host-scope", "--ipv4-range", "10.62.0.0/29", "--ipv6-range", "fd62::/64"]);
    const post = (path: string, headers?: Record<string, string>) => agent.request("POST", path, undefined, headers);
    const release = async (path: string) => (await agent.request("DELETE", path)).status;

    const granted = await post("/ipam?owner=shop/web", { expiration: "true" });
    expect(granted).toMatchObject({
      status: 201,
      json: {
        address: { ipv4: "10.62.0.3", ipv6: "fd62::3" },
        "host-addressing": { ipv4: { enabled: true, ip: "10.62.0.1", "alloc-range": "10.62.0.0/29", source: "flag" } },
        ipv4: { ip: "10.62.0.3", "expiration-uuid": expect.any(String) },
      },
    });
    expect((await post("/ipam/10.62.0.4?owner=X")).status).toBe(200);
    expect(await post("/ipam/10.62.0.4?owner=X")).toMatchObject({
      status: 409,
      json: { word: "address-taken", details: expect.stringContaining("held by X") },
    });
    expect((await post("/ipam/10.63.0.4?owner=X")).status).toBe(400);
    expect((await post("/ipam/10.62.0.0?owner=X")).status).toBe(400);
    expect((await post("/ipam/none?owner=X")).status).toBe(400);
    expect((await post("/ipam")).status).toBe(400);

    await agent.restart();
    await hasRecord(agent, ({ ipv4 }) => ipv4 !== undefined);
    expect((await agent.request("GET", "/ipam")).json).toMatchObject({
      allocations: { "10.62.0.1": "node/router", "10.62.0.3": "shop/web", "10.62.0.4": "X", "fd62::3": "shop/web" },
    });
    expect(await release("/ipam/10.62.0.4?owner=Y")).toBe(409);
    expect(await release("/ipam/10.62.0.4?owner=X")).toBe(200);
    expect(await release("/ipam/10.62.0.4?owner=X")).toBe(404);
    expect(await release("/ipam/10.62.0.4?owner=X&idempotent=true")).toBe(200);

    for (let index = 0; index < 3; index++) expect((await post("/ipam?owner=rest&family=ipv4")).status).toBe(201);
    expect(await post("/ipam?owner=rest")).toMatchObject({ status: 507, json: { word: "addresses-exhausted" } });
    expect(await release(`/ipam/${encodeURIComponent("shop/web")}`)).toBe(200);
    expect((await agent.request("GET", "/config")).json).toMatchObject({
      status: { addressing: { ipv6: { "alloc-range": "fd62::/64" } } },
    });
  });

  it("G14: confirms the grant of an endpoint that is registered: the attachment's, without a time limit", async () => {
    await using agent = await start(["--ipam", "host-scope", "--ipv4-range", "10.62.0.0/29"]);
    const granted = await agent.request("POST", "/ipam?owner=client&family=ipv4", undefined, { expiration: "true" });
    const { ipv4 } = granted.json as { ipv4: { ip: string; "expiration-uuid": string } };
    const grant = () => JSON.parse(readFileSync(grantOf(agent, ipv4.ip), "utf8"));
    expect(grant()).toMatchObject({ owner: "client", "expires-at": expect.any(String) });

    const body = { "container-id": "registered", addressing: { ipv4: ipv4.ip, "ipv4-expiration-uuid": ipv4["expiration-uuid"] } };
    expect((await agent.request("PUT", "/endpoint/0", body)).status).toBe(201);

    expect(grant()).toEqual({
      attachment: { network: "api", "container-id": "registered", ifname: "eth0" },
      token: ipv4["expiration-uuid"],
      "granted-at": expect.any(String),
    });
  });

  it("A-P04: answers 501 for a family that it does not have", async () => {
    await using agent = await start();
    expect(await agent.request("POST", "/ipam?owner=X&family=ipv6")).toMatchObject({ status: 501, json: { word: "family-disabled" } });
  });

  it("leaves no range behind where addresses come from blocks", async () => {
    await using agent = await Agent.start(node);
    const conf = localConf(node, agent.netconf);
    expect(await node.cni("ADD", { pod: await node.addPod(), conf })).toMatchObject({ exit: 0 });
    expect(readdirSync(join(agent.runDir, "state"))).not.toContain("node.json");
  });
});
