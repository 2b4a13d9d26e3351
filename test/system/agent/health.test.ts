/** A real agent's health: over its socket, and on its port. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { BIN_DIR, Node } from "../../support/node.ts";

/** How long the agent is stopped for a standstill. */
const STOPPED_MS = 200;

/** One request inside the node; the whole answer. */
async function ask(node: Node, port: number, path: string, address = "127.0.0.1"): Promise<string> {
  const script = `exec 3<>/dev/tcp/${address}/${port}; printf 'GET ${path} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3`;
  return (await node.run(["/bin/bash", "-c", script])).stdout;
}

/** Another program of the node that has a port. */
async function listener(node: Node, port: number): Promise<Disposable> {
  const script = `Bun.listen({ hostname: "0.0.0.0", port: ${port}, socket: { data() {} } }); console.log("listening")`;
  const [file = "", ...args] = node.commandLine([process.execPath, "-e", script]);
  const child = spawn(file, args, { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  return { [Symbol.dispose]: () => void child.kill("SIGKILL") };
}

// The cases wait for ports and probes beside each other, each on a node of its own.

describe("the health of an agent on the local store", () => {
  it.concurrent("is served on its port, and says the same over the socket", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node, { args: ["--health-port", "9879"] });
    expect(await ask(node, 9879, "/livez")).toContain(" 200 OK");
    expect(await ask(node, 9879, "/readyz")).toMatch(/ 200 OK[\s\S]*ok\n$/);
    expect(await ask(node, 9879, "/metrics")).toContain("tortie_endpoint_count 0");
    const { json } = await agent.request("GET", "/healthz");
    expect(json).toMatchObject({ phase: "ready", state: "ok", ready: true, live: true });
    expect((await agent.request("GET", "/metrics")).text).toContain('tortie_api_process_time_seconds_count{path="/healthz"');
  });

  it.concurrent.each([
    ["192.0.2.7:9881", "192.0.2.7"],
    ["[::]:9881", "192.0.2.7"],
    ["[::]:9881", "::1"],
  ])("serves its figures, and nothing else, at --metrics-address %s, seen from %s", async (address, from) => {
    await using node = await Node.create();
    await node.ip("address", "add", "192.0.2.7/32", "dev", "lo");
    await using agent = await Agent.start(node, { args: ["--health-port", "0", "--metrics-address", address] });
    await agent.until("the port", async () => (await ask(node, 9881, "/metrics", from)).includes("tortie_endpoint_count 0"));
    for (const path of ["/livez", "/readyz", "/healthz", "/v1/config"]) expect(await ask(node, 9881, path, from)).toContain(" 404 ");
    const elsewhere = await ask(node, 9881, "/metrics", "127.0.0.1");
    expect(elsewhere.includes("tortie_endpoint_count")).toBe(address.startsWith("["));
  });

  it.concurrent("names a --metrics-address that this node does not have as a finding, and serves it when it has", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node, { args: ["--metrics-address", "192.0.2.7:9881"] });
    const findings = async () => JSON.stringify((await agent.request("GET", "/healthz")).json);
    expect(await findings()).toContain("192.0.2.7:9881 for /metrics cannot be opened, and is tried again");
    await node.ip("address", "add", "192.0.2.7/32", "dev", "lo");
    await agent.until("the address to be served", async () => !(await findings()).includes("192.0.2.7:9881"));
    expect(await ask(node, 9881, "/metrics", "192.0.2.7")).toContain("tortie_endpoint_count 0");
  });

  it.concurrent("counts addresses, builds, their waits, what a restore finds and DELs that wait", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node);
    const conf = localConf(node, { cniVersion: "1.1.0", ipam: dualIpam("46"), ...agent.netconf });
    const pod = await node.addPod();
    expect(await node.cni("ADD", { pod, conf })).toMatchObject({ exit: 0 });
    // A repetition counts nothing.
    expect(await node.cni("ADD", { pod, conf })).toMatchObject({ exit: 0 });
    const figures = async () => (await agent.request("GET", "/metrics")).text;
    expect(await figures()).toContain('tortie_ipam_events_total{action="allocate",family="ipv4"} 1');
    expect(await figures()).toContain('tortie_ipam_events_total{action="allocate",family="ipv6"} 1');
    expect(await figures()).toMatch(/tortie_endpoint_regenerations\{outcome="success"\} [1-9]/);
    expect(await figures()).toMatch(/tortie_endpoint_regeneration_time_stats_seconds_count\{[^}]*status="success"[^}]*\} [1-9]/);
    expect(await figures()).toMatch(/tortie_events_queue_seconds_count\{event="build"\} [1-9]/);

    await agent.kill();
    const other = await node.addPod("other");
    expect(await node.cni("DEL", { pod: other, containerId: "other", conf })).toMatchObject({ exit: 0 });
    await agent.restart();
    expect(await figures()).toContain('tortie_restore_endpoints{outcome="ready"} 1');
    await agent.until("the queue to be empty", async () => (await figures()).includes("tortie_delete_queue_length 0"));
    expect(await node.cni("DEL", { pod, conf })).toMatchObject({ exit: 0 });
    expect(await figures()).toContain('tortie_ipam_events_total{action="release",family="ipv4"} 1');
  });

  it.concurrent("says how long the event loop stood still at most while a call was under way", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node);
    const conf = localConf(node, agent.netconf);
    const pod = await node.addPod();
    const longestMs = async (): Promise<number> => {
      const { text } = await agent.request("GET", "/metrics");
      return Number(/^tortie_event_loop_longest_standstill_seconds (\S+)$/m.exec(text)?.[1]) * 1000;
    };
    await agent.until("a stop of the process to be measured", async () => {
      // It is measured until a tenth of a second after a call; a busy machine may come too late for that.
      expect(await node.cni("ADD", { pod, conf })).toMatchObject({ exit: 0 });
      agent.signal("SIGSTOP");
      await Bun.sleep(STOPPED_MS);
      agent.signal("SIGCONT");
      return (await longestMs()) >= STOPPED_MS / 2;
    });
    const { text: health } = await agent.request("GET", "/healthz");
    expect(Number(/"longest standstill (\d+) ms"/.exec(health)?.[1])).toBeGreaterThanOrEqual(STOPPED_MS / 2);
  });

  it.concurrent("S7: is told to probes over the socket, whoever has the port; a process that stands still is not alive", async () => {
    await using node = await Node.create();
    using _squatter = await listener(node, 9879);
    await using agent = await Agent.start(node, { args: ["--health-port", "9879"] });
    const probe = (...flags: readonly string[]) =>
      node.run([join(BIN_DIR, "tortiectl"), "node", "health", "--socket", agent.socket, ...flags]);
    expect(await probe("--live")).toMatchObject({ exit: 0, stdout: "live\n" });
    expect(await probe()).toMatchObject({ exit: 0, stdout: "ready\n" });
    expect(JSON.parse((await probe("--json")).stdout)).toMatchObject({ ready: true, phase: "ready" });
    agent.signal("SIGSTOP");
    expect(await probe("--live")).toMatchObject({ exit: 1 });
    agent.signal("SIGCONT");
    await agent.until("an answer", async () => (await probe("--live")).exit === 0);
  });

  it.concurrent("does not keep the agent from starting when its port is taken, and is a finding then", async () => {
    await using node = await Node.create();
    using _squatter = await listener(node, 9879);
    await using agent = await Agent.start(node, { args: ["--health-port", "9879"] });
    const { json } = await agent.request("GET", "/healthz");
    expect(json).toMatchObject({ ready: true, state: "warning", findings: [expect.stringContaining("port 9879")] });
  });
});

/** Kubeconfig of an API server whose port nobody listens on. */
const SERVER_AWAY = `apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: here}}]
clusters: [{name: here, cluster: {server: "https://127.0.0.1:9"}}]
users: [{name: here, user: {token: none}}]
`;

describe("STATUS of an agent that answers and is not ready", () => {
  it("succeeds, and the agent's log says what it is not ready for", async () => {
    await using node = await Node.create();
    const kubeconfig = join(node.dir, "kubeconfig");
    writeFileSync(kubeconfig, SERVER_AWAY);
    const args = ["--datastore-type", "kubernetes", "--kubeconfig", kubeconfig];
    await using agent = await Agent.start(node, { args, until: "local" });
    expect((await agent.request("GET", "/healthz")).json).toMatchObject({ phase: "local", ready: false });
    const conf = localConf(node, {
      cniVersion: "1.1.0",
      ...agent.netconf,
      datastore_type: "kubernetes",
      kubernetes: { kubeconfig },
      nodename_file_optional: true,
    });

    expect(await node.cni("STATUS", { conf })).toMatchObject({ exit: 0, stdout: "" });
    expect(agent.log).toContain("the agent is not ready: phase: the agent is in phase local");

    // What only a correction of this node ends still fails it.
    const wrong = { ...conf, kubernetes: { kubeconfig: "/nowhere" } };
    expect(await node.cni("STATUS", { conf: wrong })).toMatchObject({ exit: 1, json: { code: 50 } });
  });
});
