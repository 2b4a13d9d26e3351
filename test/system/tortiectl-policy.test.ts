/** `tortiectl policy` at a running agent whose policies come from a directory, with real packets that real rules drop. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent, cniCallBody } from "../support/agent.ts";
import { dualIpam, localConf, podArgs } from "../support/conf.ts";
import { fresh } from "../support/fixtures.ts";
import { until } from "../support/kubernetes/until.ts";
import { BIN_DIR, Node, type Pod, type RunResult } from "../support/node.ts";

/** Selects web, and lets db reach its port 80. */
const CLOSE = {
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name: "close", namespace: "default" },
  spec: {
    podSelector: { matchLabels: { app: "web" } },
    policyTypes: ["Ingress"],
    ingress: [{ from: [{ podSelector: { matchLabels: { app: "db" } } }], ports: [{ protocol: "TCP", port: 80 }] }],
  },
};

interface TestPod {
  readonly pod: Pod;
  readonly addresses: readonly string[];
}

class Bench implements AsyncDisposable {
  readonly node: Node;
  readonly directory: string;
  agent: Agent | undefined;
  readonly pods = new Map<string, TestPod>();

  constructor(node: Node) {
    this.node = node;
    this.directory = join(node.dir, "policies");
    mkdirSync(this.directory);
  }

  static async create(args: readonly string[] = []): Promise<Bench> {
    const bench = new Bench(await Node.create());
    await bench.start(args);
    for (const name of ["web", "db"]) await bench.add(name);
    return bench;
  }

  async start(args: readonly string[] = []): Promise<void> {
    this.agent = await Agent.start(this.node, { args: ["--policy-directory", this.directory, ...args] });
  }

  /** Adds pod default/NAME with the label app=NAME, or another, and an address of each family. */
  async add(name: string, app = name): Promise<void> {
    const pod = await this.node.addPod();
    const conf = localConf(this.node, { ipam: dualIpam("46") });
    const containerId = name.slice(0, 64);
    const args = `${podArgs(name, "default", containerId)};K8S_POD_LABELS=app:${app}`;
    const answer = await this.agent?.call("add", cniCallBody(conf, { containerId, netns: pod.netnsPath, args }));
    const { ips = [] } = (answer?.json ?? {}) as { readonly ips?: readonly { readonly address: string }[] };
    if (ips.length === 0) throw new Error(`ADD of ${name}: ${answer?.text}`);
    this.pods.set(name, { pod, addresses: ips.map(({ address }) => address.split("/")[0] ?? "") });
  }

  async policy(change: object = {}, name = "close"): Promise<void> {
    writeFileSync(join(this.directory, `${name}.yaml`), `${JSON.stringify({ ...CLOSE, ...change })}\n`);
    expect(await this.tortie("wait", "--timeout", "20")).toMatchObject({ exit: 0, stderr: "" });
  }

  tortie(...argv: string[]): Promise<RunResult> {
    return this.node.run([join(BIN_DIR, "tortiectl"), "policy", ...argv, "--socket", this.socket]);
  }

  get socket(): string {
    return this.agent?.socket ?? "";
  }

  /** Tries to connect by TCP, and to send by UDP, for a moment. */
  async knock(from: string, to: string, port: number): Promise<void> {
    const sender = this.pods.get(from)?.pod;
    for (const address of this.pods.get(to)?.addresses ?? []) {
      const script = `import socket,sys
a, p = sys.argv[1], int(sys.argv[2])
f = socket.AF_INET6 if ":" in a else socket.AF_INET
s = socket.socket(f, socket.SOCK_STREAM); s.settimeout(0.1)
try: s.connect((a, p))
except OSError: pass`;
      await this.node.run(["/usr/bin/python3", "-c", script, address, String(port)], {}, sender);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent?.[Symbol.asyncDispose]();
    await this.node[Symbol.asyncDispose]();
  }
}

const at = fresh(() => Bench.create());

describe("tortiectl policy list", () => {
  it("P21: shows each policy with whom it selects here, whether it is in force, and what is wrong with it", async () => {
    expect(await at.tortie("list")).toMatchObject({ exit: 0, stderr: "no policies\n" });
    await at.policy();
    await at.policy({ metadata: { name: "broken", namespace: "default" }, spec: { podSelector: 7 } }, "broken");
    const { stdout } = await at.tortie("list", "-o", "wide");
    expect(stdout).toMatch(/^POLICY +DIRECTIONS +ENDPOINTS +STATE +VERSION +SELECTS\n/);
    expect(stdout).toMatch(/^default\/close +ingress +1 +in force +\S+ +default\/web$/m);
    expect(stdout).toMatch(/^default\/broken +\S+ +2 +invalid /m);
    expect(stdout).toMatch(/^invalid {2}default\/broken closes what it selects and opens nothing: .*podSelector/m);
    const { policies } = JSON.parse((await at.tortie("list", "--json")).stdout);
    expect(policies).toEqual(expect.arrayContaining([expect.objectContaining({ name: "close", realised: true, pending: [] })]));
  });
});

describe("tortiectl policy explain", () => {
  it("says of both ends and both families what decides, and by its exit status whether it would pass", async () => {
    await at.policy();
    const denied = await at.tortie("explain", "default/db", "default/web", "8081");
    expect(denied).toMatchObject({ exit: 1, stderr: "" });
    expect(denied.stdout).toMatch(/^from {2}default\/db \(cali\w+, .*\)\nto {4}default\/web \(cali\w+, /);
    expect(denied.stdout.match(/^denied {2}TCP port 8081, \S+ to \S+$/gm)).toHaveLength(2);
    expect(denied.stdout).toMatch(/^ {2}ingress {2}denies {2}.*default\/close.*8081/m);
    const allowed = await at.tortie("explain", "db", at.pods.get("web")?.addresses[0] ?? "", "80/tcp", "--json");
    expect(allowed.exit).toBe(0);
    expect(JSON.parse(allowed.stdout)).toMatchObject({
      to: { pod: "default/web" },
      protocol: "TCP",
      port: 80,
      verdicts: [{ verdict: "allow", ingress: { "decided-by": { policy: "default/close", rule: 1 } }, egress: { policies: [] } }],
    });
  });

  it("says what is wrong with a question", async () => {
    await at.policy();
    for (const [argv, exit, words] of [
      [["db", "default/nobody", "80"], 1, "policy-end-unknown"],
      [["db", "web", "http"], 1, 'port "http" of default/web: its ports are not known here: this node has no API server to ask'],
      [["db", "web", "ht/tp"], 2, "option-invalid"],
      [["db", "web", "70000"], 2, "option-invalid"],
    ] as const) {
      expect(await at.tortie("explain", ...argv)).toMatchObject({ exit, stderr: expect.stringContaining(words) });
    }
  });

  it("does not judge what the host itself sends", async () => {
    await at.policy();
    const answer = await at.tortie("explain", "127.0.0.1", "default/web", "8081");
    expect(answer).toMatchObject({ exit: 0, stdout: expect.stringContaining("what a host sends to its own pods is not judged") });
  });
});

describe("tortiectl policy drops", () => {
  it("names both pods, the port and the rule of each dropped packet, of both families", async () => {
    await at.policy();
    const [ipv4 = "", ipv6 = ""] = at.pods.get("web")?.addresses ?? [];
    await until("both are shown", async () => {
      await at.knock("db", "web", 8081);
      const lines = (await at.tortie("drops", "web")).stdout;
      return lines.includes(`(${ipv4}:8081, identity `) && lines.includes(`([${ipv6}]:8081, identity `);
    });
    const { stdout, stderr } = await at.tortie("drops", "default/web");
    // What is dropped before the agent has written an identity, behind the ADD, is shown without it.
    const line =
      /^\S+Z {2}default\/web {2}ingress denied {2}TCP default\/db \(\S+:\d+(?:, identity \d+)?\) to default\/web \(\S+:8081(?:, identity \d+)?\) {2}.*default\/close/;
    for (const one of stdout.trim().split("\n")) expect(one).toMatch(line);
    expect(stderr).toMatch(/^dropped on this node since its packet filter was made: ingress denied \d+/);
    expect(await at.tortie("drops", "db")).toMatchObject({ exit: 0, stdout: "" });
    const json = JSON.parse((await at.tortie("drops", "--json")).stdout);
    expect(json.drops[0]).toMatchObject({
      pod: "default/web",
      policies: ["default/close"],
      destination: { pod: "default/web", port: 8081 },
    });
  });

  it("names pods and a policy of 253 characters each whole, where the kernel has 127 for what it says of a packet", async () => {
    const [web, db, close] = ["web", "db", "close"].map((word) => `${word}.${"abcdefgh.".repeat(30)}`.slice(0, 252).concat("z")) as [
      string,
      string,
      string,
    ];
    await at.add(web, "web");
    await at.add(db, "db");
    await at.policy({ metadata: { name: close, namespace: "default" } });
    await until("it is shown", async () => {
      await at.knock(db, web, 8081);
      return (await at.tortie("drops", `default/${web}`)).stdout.includes(":8081, identity ");
    });
    const { drops } = JSON.parse((await at.tortie("drops", "--json")).stdout);
    expect(drops[0]).toMatchObject({
      pod: `default/${web}`,
      policies: [`default/${close}`],
      source: { pod: `default/${db}` },
      destination: { pod: `default/${web}`, port: 8081 },
    });
  });

  it("names a host end that nobody knows, and a packet that begins no connection", async () => {
    await at.policy();
    const stranger = await at.node.addPod();
    await at.node.ip("link", "add", "calistranger", "type", "veth", "peer", "name", "e0", "netns", stranger.name);
    await at.node.ip("address", "add", "10.250.0.1/24", "dev", "calistranger");
    await at.node.ip("link", "set", "calistranger", "up");
    await at.node.podIp(stranger, "address", "add", "10.250.0.2/24", "dev", "e0");
    await at.node.podIp(stranger, "link", "set", "e0", "up");
    const knock = `import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("10.250.0.1", 53))`;
    await at.node.run(["/usr/bin/python3", "-c", knock], {}, stranger);
    await until("it is shown", async () => (await at.tortie("drops", "calistranger")).stdout.includes("endpoint-unknown"));
    expect((await at.tortie("drops", "calistranger")).stdout).toMatch(
      /^\S+Z {2}calistranger {2}egress endpoint-unknown {2}UDP 10\.250\.0\.2:\d+ to 10\.250\.0\.1:53 {2}nobody has said yet/,
    );
    const [to = ""] = at.pods.get("web")?.addresses ?? [];
    const acknowledge = `import socket,struct
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
s.sendto(struct.pack("!HHIIBBHHH", 4000, 80, 1, 1, 80, 16, 1024, 0, 0), ("${to}", 0))`;
    await at.node.run(["/usr/bin/python3", "-c", acknowledge], {}, at.pods.get("db")?.pod);
    await until("it is shown too", async () => /tcp-without-syn|invalid/.test((await at.tortie("drops")).stdout));
  });

  it("shows them as they come, and ends with SIGINT, or when the agent ends", async () => {
    await at.policy();
    const [output, pid] = [join(at.node.dir, "lines"), join(at.node.dir, "follow.pid")];
    const follow = (file: string) => {
      const command = `echo $$ >${pid}; exec ${join(BIN_DIR, "tortiectl")} policy drops --follow --socket ${at.socket} >${file}`;
      return at.node.run(["/bin/sh", "-c", command]);
    };
    const first = follow(output);
    await until("a drop is shown", async () => {
      await at.knock("db", "web", 8081);
      return existsSync(output) && readFileSync(output, "utf8").includes("default/web  ingress denied");
    });
    process.kill(Number(readFileSync(pid, "utf8")), "SIGINT");
    expect(await first).toMatchObject({ exit: 0, stderr: "" });
    const second = follow(`${output}2`);
    await until("it follows", async () => {
      await at.knock("db", "web", 8082);
      return existsSync(`${output}2`) && readFileSync(`${output}2`, "utf8").includes(":8082");
    });
    expect(await at.agent?.stop()).toBe(0);
    expect(await second).toMatchObject({ exit: 1, stderr: expect.stringContaining("has ended") });
  });
});

describe("tortiectl policy wait", () => {
  it("knows no policy that is not there, and fails with what is missing when the time is over", async () => {
    expect(await at.tortie("wait", "--policy", "default/none")).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining("policy-unknown: "),
    });
    await at.policy();
    expect(await at.tortie("wait", "--policy", "default/close")).toMatchObject({
      exit: 0,
      stdout: expect.stringContaining("holds default/close"),
    });
    const late = await at.tortie("wait", "--policy", "default/close", "--resource-version", "other", "--timeout", "0.3");
    expect(late).toMatchObject({ exit: 1, stderr: expect.stringMatching(/does not hold default\/close after 0\.3 s\n.* not other/) });
    expect(await at.tortie("wait", "--timeout", "301")).toMatchObject({ exit: 2 });
  });
});

describe("tortiectl policy off", () => {
  it("is refused while an agent enforces policy, and opens the node when it is gone", async () => {
    await at.policy();
    expect(await at.tortie("off")).toMatchObject({ exit: 1, stderr: expect.stringContaining("(policy-in-use)") });
    const table = async () => (await at.node.run(["/usr/sbin/nft", "list", "table", "inet", "tortie-policy"])).exit;
    expect(await table()).toBe(0);
    await at.agent?.stop();
    expect(await table()).toBe(0);
    const done = await at.tortie("off");
    expect(done).toMatchObject({ exit: 0, stdout: expect.stringContaining("table inet tortie-policy is removed") });
    expect(await table()).toBe(1);
    expect(await at.tortie("off")).toMatchObject({ exit: 0, stdout: expect.stringContaining("off on this node already") });
    expect(JSON.parse((await at.tortie("off", "--json")).stdout)).toEqual({
      table: false,
      file: false,
      dropped: 0,
      "agent-enforces": false,
    });
  });

  it("with --force says that the agent makes the table again", async () => {
    await at.policy();
    expect(await at.tortie("off", "--force")).toMatchObject({ exit: 0, stdout: expect.stringContaining("it makes the table again") });
  });
});

describe("an agent without policy", () => {
  it("says why", async () => {
    await using bench = await Bench.create(["--policy", "off"]);
    for (const argv of [["list"], ["explain", "db", "web", "80"], ["drops"], ["drops", "-f"], ["wait"]]) {
      expect(await bench.tortie(...argv)).toMatchObject({
        exit: 1,
        stderr: expect.stringMatching(/the agent was started with --policy off\n.*policy-off: /),
      });
    }
    expect(await bench.tortie("off")).toMatchObject({ exit: 0 });
  });
});
