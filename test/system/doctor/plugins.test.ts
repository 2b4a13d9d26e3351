/** `tortiectl doctor` on lists, executables, agents and stores that are really there: found when broken, well again after the next step. */

import { Database } from "bun:sqlite";
import { chmodSync, copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Agent } from "../../support/agent.ts";
import { commandIn, DoctorNode, finding, WELL } from "../../support/doctor.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR, REFERENCE_PLUGINS_DIR } from "../../support/node.ts";

// Each answer takes a second of waiting for what is not there: the cases wait beside each other, each on a host of its own.

describe("lists and plugins", () => {
  it.concurrent("first-list: none, one of somebody else's alone, and one before ours", async () => {
    await using host = await DoctorNode.create();
    rmSync(join(host.netDir, "10-tortie.conflist"));
    expect(await host.says("first-list")).toEqual(finding("failed", /there is no network configuration/, /tortiectl install/));
    const earlier = host.file("00-bridge.conf", JSON.stringify({ cniVersion: "1.0.0", name: "b", type: "bridge" }));
    expect(await host.says("first-list")).toEqual(finding("failed", /no list has Tortie's plugin; runtimes take 00-bridge\.conf/));
    host.list();
    const [taken] = await host.says("first-list");
    expect([taken]).toEqual(finding("failed", /it comes before 10-tortie\.conflist: runtimes take it instead/));
    await host.sh(`${commandIn(taken?.next, /mv \S+/)} ${host.node.dir}`);
    expect(earlier).toContain("00-bridge.conf");
    expect(await host.says("first-list")).toEqual(WELL);
    const list = JSON.stringify({ cniVersion: "1.0.0", name: "b", plugins: [{ type: "bridge" }] });
    for (const [name, content] of [
      ["00-list.conf", list],
      ["00-one.conflist", JSON.stringify({ cniVersion: "1.0.0", name: "b", type: "bridge" })],
    ]) {
      const file = host.file(name ?? "", content ?? "");
      expect(await host.says("first-list")).toEqual(finding("failed", /it comes first, and runtimes refuse it/, /a name that ends with/));
      rmSync(file);
    }
  });

  it.concurrent("other-lists: one of another network behind ours", async () => {
    await using host = await DoctorNode.create();
    host.file("20-flannel.conflist", JSON.stringify({ cniVersion: "1.0.0", name: "cbr0", plugins: [{ type: "flannel" }] }));
    const found = await host.says("other-lists");
    expect(found).toEqual(finding("warning", /it is a list of flannel/));
    await host.sh(commandIn(found[0]?.next, /rm \S+/));
    expect(await host.says("other-lists")).toEqual(WELL);
  });

  it.concurrent("list: a key that nobody knows, and a value that the plugin would refuse", async () => {
    await using host = await DoctorNode.create();
    host.list({ mtuu: 1400 });
    expect(await host.says("list")).toEqual(finding("warning", /mtuu/, /tortiectl validate/));
    host.list({ agent: "sometimes" });
    expect(await host.says("list")).toEqual([
      expect.objectContaining({ status: "failed", word: "netconf-value", next: expect.any(String) }),
    ]);
    host.list();
    expect(await host.says("list")).toEqual(WELL);
  });

  it.concurrent("reference-plugins: portmap that is missing, until it is there", async () => {
    await using host = await DoctorNode.create();
    const empty = join(host.node.dir, "plugins");
    mkdirSync(empty);
    host.args[3] = `${BIN_DIR}:${empty}`;
    const [portmap] = await host.says("reference-plugins");
    expect([portmap]).toEqual(finding("warning", /install the CNI reference plugins/));
    for (const name of ["portmap", "loopback"]) copyFileSync(join(REFERENCE_PLUGINS_DIR, name), join(empty, name));
    expect((await host.says("reference-plugins")).map(({ status }) => status)).toEqual(["ok", "ok"]);
  });

  it.concurrent("plugin-versions: a chained plugin that is missing, and one that does not speak the list's version", async () => {
    await using host = await DoctorNode.create();
    const plugins = join(host.node.dir, "plugins");
    mkdirSync(plugins);
    host.args[3] = `${BIN_DIR}:${plugins}`;
    host.list({}, [{ type: "old-firewall" }]);
    expect(await host.says("plugin-versions")).toEqual([
      expect.objectContaining({ status: "failed", word: "plugin-missing", next: expect.stringContaining(plugins) }),
    ]);
    const program = join(plugins, "old-firewall");
    const speaks = (...versions: string[]) => {
      writeFileSync(program, `#!/bin/sh\necho '${JSON.stringify({ cniVersion: "1.1.0", supportedVersions: versions })}'\n`);
      chmodSync(program, 0o755);
    };
    speaks("0.3.1", "0.4.0");
    expect(await host.says("plugin-versions")).toEqual([
      expect.objectContaining({
        status: "failed",
        word: "plugin-version",
        message: expect.stringMatching(/does not support cniVersion 1\.1\.0/),
      }),
    ]);
    speaks("0.4.0", "1.1.0");
    expect(await host.says("plugin-versions")).toEqual(WELL);
  });

  it.concurrent("installed-version: a plugin of an older version, until it is installed again", async () => {
    await using host = await DoctorNode.create();
    const plugins = join(host.node.dir, "plugins");
    mkdirSync(plugins);
    host.args[3] = `${plugins}:${BIN_DIR}:${REFERENCE_PLUGINS_DIR}`;
    writeFileSync(join(plugins, "tortie-ipam"), "#!/bin/sh\necho 0.0.9\n", { mode: 0o755 });
    expect(await host.says("installed-version")).toEqual(
      expect.arrayContaining(finding("warning", /it is version "0\.0\.9", and this program is/, /tortiectl install/)),
    );
    copyFileSync(join(BIN_DIR, "tortie-ipam"), join(plugins, "tortie-ipam"));
    expect((await host.says("installed-version")).map(({ status }) => status)).toEqual(["ok", "ok"]);
  });

  it.concurrent("status: what keeps every pod away, until the list is corrected", async () => {
    await using host = await DoctorNode.create();
    host.list({ ipam: { type: "tortie-ipam" } });
    const found = await host.says("status");
    expect(found).toEqual(finding("failed", /pools/));
    expect(found[0]?.word).toBe("status-unavailable");
    host.list();
    expect(await host.says("status")).toEqual(WELL);
  });
});

describe("the agent", () => {
  it.concurrent("agent-socket: required and never there, killed, and there again", async () => {
    await using host = await DoctorNode.create();
    host.list({ agent: "require" });
    expect(await host.says("agent-socket")).toEqual(
      finding("failed", /the list requires an agent, and none has been here/, /systemctl start tortie-node/),
    );
    await using agent = await Agent.start(host.node);
    expect(await host.says("agent-socket")).toEqual(WELL);
    expect(await host.says("agent-health")).toEqual(WELL);
    expect(await host.says("agent-version")).toEqual(WELL);
    await agent.kill();
    const [dead] = await host.says("agent-socket");
    expect([dead]).toEqual(finding("failed", /has written \S+agent\.json .*\(phase ready\), and does not answer/, /start it again/));
    expect(dead?.word).toBe("agent-unreachable");
    await agent.restart();
    expect(await host.says("agent-socket")).toEqual(WELL);
  });

  it.concurrent("routes: an address that the agent knows and no route leads to, until one does", async () => {
    await using host = await DoctorNode.create();
    await using agent = await Agent.start(host.node);
    const { address } = await host.pod(agent.netconf);
    expect(await host.says("routes")).toEqual(WELL);
    await host.sh(`ip route del ${address}`);
    const found = await host.says("routes");
    expect(found).toEqual(finding("failed", `no route leads to its address ${address}`));
    await host.sh(commandIn(found[0]?.next, /ip route replace \S+ dev \S+ scope link/));
    expect(await host.says("routes")).toEqual(WELL);
  });

  it.concurrent("agent-version: an agent of another build, until it is the same one", async () => {
    await using host = await DoctorNode.create();
    const program = join(host.node.dir, "other-build");
    const bun = resolve("node_modules/bun/bin/bun.exe");
    const start = `import { tortieNode } from "${resolve("cmd/tortie-node.ts")}";\nprocess.exit(await tortieNode(process.argv.slice(2), process.env));\n`;
    writeFileSync(`${program}.ts`, start);
    writeFileSync(program, `#!/bin/sh\nexec ${bun} --bun ${program}.ts "$@"\n`, { mode: 0o755 });
    const other = await Agent.start(host.node, { program });
    expect(await host.says("agent-version")).toEqual(
      finding("warning", /it is version "0\.0\.0-source", and this program is/, /upgrade\.md/),
    );
    await other.stop();
    await using _same = await Agent.start(host.node);
    expect(await host.says("agent-version")).toEqual(WELL);
  });

  it.concurrent("agent-health: what the agent says of itself, until it has ended", async () => {
    await using host = await DoctorNode.create();
    // Takes the port that the agent is to serve its figures at.
    const taken = host.node.run(["/usr/bin/python3", "-c", TAKE_PORT, join(host.node.dir, "stop")]);
    await until("the port is taken", async () => (await host.node.run(["/bin/ss", "-Htln", "sport = :9555"])).stdout !== "");
    await using _agent = await Agent.start(host.node, { args: ["--health-port", "9555"] });
    await until("the agent says so", async () => {
      const found = await host.says("agent-health");
      return found.some(
        ({ status, message, next }) => status === "warning" && /port 9555 .* cannot be opened/.test(message) && next !== undefined,
      );
    });
    writeFileSync(join(host.node.dir, "stop"), "");
    await taken;
    await until("it is well again", async () => (await host.says("agent-health")).every(({ status }) => status === "ok"), 120_000);
  });
});

const TAKE_PORT = `import os,socket,sys,time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", 9555)); s.listen()
while not os.path.exists(sys.argv[1]): time.sleep(0.05)`;

/** Serves GET /version as an API server whose clock is so many seconds behind as the file says. */
const SERVE_VERSION = `import http.server,sys,time
class Handler(http.server.BaseHTTPRequestHandler):
    def date_time_string(self, timestamp=None): return super().date_time_string(time.time() - float(open(sys.argv[1]).read()))
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Type", "application/json"); self.end_headers(); self.wfile.write(b"{}")
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", 6443), Handler).serve_forever()`;

describe("the API server that the list names", () => {
  /** A list for a cluster, with a token that ends in so many seconds. */
  function cluster(host: DoctorNode, seconds: number): void {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const token = [part({ alg: "none" }), part({ exp: Math.floor(Date.now() / 1000) + seconds }), "signature"].join(".");
    const kubeconfig = join(host.node.dir, "kubeconfig");
    const named = (name: string, kind: string, value: object) => ({ [`${kind}s`]: [{ name, [kind]: value }] });
    const parts = {
      ...named("c", "cluster", { server: "http://127.0.0.1:6443" }),
      ...named("u", "user", { token }),
      ...named("x", "context", { cluster: "c", user: "u" }),
    };
    writeFileSync(kubeconfig, JSON.stringify({ apiVersion: "v1", kind: "Config", "current-context": "x", ...parts }));
    host.list({ datastore_type: "kubernetes", datastore_path: undefined, kubernetes: { kubeconfig }, ipam: { type: "tortie-ipam" } });
  }

  it.concurrent("token: one that has ended, one that ends soon, and a new one", async () => {
    await using host = await DoctorNode.create();
    cluster(host, -60);
    expect(await host.says("token")).toEqual(finding("failed", /the credentials have ended at/, /renew it/));
    cluster(host, 600);
    expect(await host.says("token")).toEqual(finding("warning", /end at .* and nobody has renewed them yet/));
    cluster(host, 86_400);
    expect(await host.says("token")).toEqual(WELL);
  });

  it.concurrent("clock: one that is behind the server's, until it is set", async () => {
    await using host = await DoctorNode.create();
    cluster(host, 86_400);
    const offset = join(host.node.dir, "offset");
    const late = (seconds: number) => writeFileSync(offset, String(seconds));
    late(120);
    void host.node.run(["/usr/bin/python3", "-c", SERVE_VERSION, offset]);
    await until("the server listens", async () => (await host.node.run(["/bin/ss", "-Htln", "sport = :6443"])).stdout !== "");
    expect(await host.says("clock")).toEqual(
      finding("failed", /this host's clock is 1(19|20|21) s ahead of the API server's/, /timedatectl set-ntp true/),
    );
    late(-10);
    expect(await host.says("clock")).toEqual(finding("warning", /s behind the API server's/));
    late(0);
    expect(await host.says("clock")).toEqual(WELL);
  });
});

describe("policy", () => {
  it.concurrent("policy: a table that was left behind, until it is taken away", async () => {
    await using host = await DoctorNode.create();
    await host.sh("nft add table inet tortie-policy");
    const found = await host.says("policy");
    expect(found).toEqual([expect.objectContaining({ status: "failed", word: "policy-table-left" })]);
    await host.sh(`${join(BIN_DIR, commandIn(found[0]?.next, /tortiectl policy off/))} --socket ${host.args[5]}`);
    expect(await host.says("policy")).toEqual(WELL);
  });
});

describe("addresses", () => {
  const SMALL = { ipam: { type: "tortie-ipam", pools: [{ cidr: "10.244.0.0/30", blockSize: 30 }] } };

  it.concurrent("pools: none that is left, until there is another one", async () => {
    await using host = await DoctorNode.create();
    host.list(SMALL);
    const pods = [];
    for (let at = 0; at < 4; at++) {
      const pod = await host.node.addPod();
      pods.push(pod);
      const { exit } = await host.node.cni("ADD", { pod, containerId: `c${at}`, conf: host.conf(SMALL) });
      if (exit !== 0) break;
    }
    const found = await host.says("pools");
    expect(found).toEqual(finding("failed", /no address is left/, /add a pool/));
    expect(found[0]?.word).toBe("addresses-exhausted");
    host.list({ ipam: { type: "tortie-ipam", pools: [...SMALL.ipam.pools, { cidr: "10.245.0.0/24" }] } });
    expect(await host.says("pools")).toEqual(WELL);
  });

  it.concurrent("ipam-check: a handle that was lost, until it was repaired", async () => {
    await using host = await DoctorNode.create();
    await host.pod();
    expect(await host.says("ipam-check")).toEqual(WELL);
    loseHandles(host.node.datastorePath);
    const found = await host.says("ipam-check");
    expect(found).toEqual([
      expect.objectContaining({ status: "failed", word: "handle-missing", next: expect.stringContaining("--repair") }),
    ]);
    await host.sh(`${join(BIN_DIR, commandIn(found[0]?.next, /tortiectl ipam check --repair/))} --datastore ${host.node.datastorePath}`);
    expect(await host.says("ipam-check")).toEqual(WELL);
  });
});

function loseHandles(path: string): void {
  using database = new Database(path);
  const changed = database.run("DELETE FROM objects WHERE kind = 'handle'").changes;
  if (changed === 0) throw new Error("there was no handle");
}
