/** `tortiectl policy` at a running agent whose policies come from a directory, with real packets that real rules drop. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fresh } from "../support/fixtures.ts";
import { until } from "../support/kubernetes/until.ts";
import { BIN_DIR, type RunResult } from "../support/node.ts";
import { type AttachedPod, PolicyAgentNode } from "../support/policy-agent.ts";

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

const at = fresh(PolicyAgentNode.create);
let web: AttachedPod;
let db: AttachedPod;

beforeEach(async () => {
  [web, db] = [await add("web"), await add("db")];
});

/** Adds pod default/NAME with the label app=NAME, or another, and an address of each family. */
function add(name: string, app = name): Promise<AttachedPod> {
  return at.attach(name, { namespace: "default", labels: { app } });
}

async function policy(change: object = {}, name = "close"): Promise<void> {
  at.write(name, { ...CLOSE, ...change });
  expect(await tortie("wait", "--timeout", "20")).toMatchObject({ exit: 0, stderr: "" });
}

function tortie(...argv: string[]): Promise<RunResult> {
  return tortieAt(at, argv);
}

function tortieAt({ node, agent }: PolicyAgentNode, argv: readonly string[]): Promise<RunResult> {
  return node.run([join(BIN_DIR, "tortiectl"), "policy", ...argv, "--socket", agent.socket]);
}

/** Tries to connect by TCP for a moment, in both families. */
async function knock(from: AttachedPod, to: AttachedPod, port: number): Promise<void> {
  for (const address of Object.values(to.address)) await from.prober.ask("tcp", { to: address, port, within: 0.1 });
}

describe("tortiectl policy list", () => {
  it("P21: shows each policy with whom it selects here, whether it is in force, and what is wrong with it", async () => {
    expect(await tortie("list")).toMatchObject({ exit: 0, stderr: "no policies\n" });
    await policy();
    await policy({ metadata: { name: "broken", namespace: "default" }, spec: { podSelector: 7 } }, "broken");
    const { stdout } = await tortie("list", "-o", "wide");
    expect(stdout).toMatch(/^POLICY +DIRECTIONS +ENDPOINTS +STATE +VERSION +SELECTS\n/);
    expect(stdout).toMatch(/^default\/close +ingress +1 +in force +\S+ +default\/web$/m);
    expect(stdout).toMatch(/^default\/broken +\S+ +2 +invalid /m);
    expect(stdout).toMatch(/^invalid {2}default\/broken closes what it selects and opens nothing: .*podSelector/m);
    const { policies } = JSON.parse((await tortie("list", "--json")).stdout);
    expect(policies).toEqual(expect.arrayContaining([expect.objectContaining({ name: "close", realised: true, pending: [] })]));
  });
});

describe("tortiectl policy explain", () => {
  it("says of both ends and both families what decides, and by its exit status whether it would pass", async () => {
    await policy();
    const denied = await tortie("explain", "default/db", "default/web", "8081");
    expect(denied).toMatchObject({ exit: 1, stderr: "" });
    expect(denied.stdout).toMatch(/^from {2}default\/db \(cali\w+, .*\)\nto {4}default\/web \(cali\w+, /);
    expect(denied.stdout.match(/^denied {2}TCP port 8081, \S+ to \S+$/gm)).toHaveLength(2);
    expect(denied.stdout).toMatch(/^ {2}ingress {2}denies {2}.*default\/close.*8081/m);
    const allowed = await tortie("explain", "db", web.address[4], "80/tcp", "--json");
    expect(allowed.exit).toBe(0);
    expect(JSON.parse(allowed.stdout)).toMatchObject({
      to: { pod: "default/web" },
      protocol: "TCP",
      port: 80,
      verdicts: [{ verdict: "allow", ingress: { "decided-by": { policy: "default/close", rule: 1 } }, egress: { policies: [] } }],
    });
  });

  it("says what is wrong with a question", async () => {
    await policy();
    for (const [argv, exit, words] of [
      [["db", "default/nobody", "80"], 1, "policy-end-unknown"],
      [["db", "web", "http"], 1, 'port "http" of default/web: its ports are not known here: this node has no API server to ask'],
      [["db", "web", "ht/tp"], 2, "option-invalid"],
      [["db", "web", "70000"], 2, "option-invalid"],
    ] as const) {
      expect(await tortie("explain", ...argv)).toMatchObject({ exit, stderr: expect.stringContaining(words) });
    }
  });

  it("does not judge what the host itself sends", async () => {
    await policy();
    const answer = await tortie("explain", "127.0.0.1", "default/web", "8081");
    expect(answer).toMatchObject({ exit: 0, stdout: expect.stringContaining("what a host sends to its own pods is not judged") });
  });
});

describe("tortiectl policy drops", () => {
  it("names both pods, the port and the rule of each dropped packet, of both families", async () => {
    await policy();
    const { 4: ipv4, 6: ipv6 } = web.address;
    await until("both are shown", async () => {
      await knock(db, web, 8081);
      const lines = (await tortie("drops", "web")).stdout;
      return lines.includes(`(${ipv4}:8081, identity `) && lines.includes(`([${ipv6}]:8081, identity `);
    });
    const { stdout, stderr } = await tortie("drops", "default/web");
    // What is dropped before the agent has written an identity, behind the ADD, is shown without it.
    const line =
      /^\S+Z {2}default\/web {2}ingress denied {2}TCP default\/db \(\S+:\d+(?:, identity \d+)?\) to default\/web \(\S+:8081(?:, identity \d+)?\) {2}.*default\/close/;
    for (const one of stdout.trim().split("\n")) expect(one).toMatch(line);
    expect(stderr).toMatch(/^dropped on this node since its packet filter was made: ingress denied \d+/);
    expect(await tortie("drops", "db")).toMatchObject({ exit: 0, stdout: "" });
    const json = JSON.parse((await tortie("drops", "--json")).stdout);
    expect(json.drops[0]).toMatchObject({
      pod: "default/web",
      policies: ["default/close"],
      destination: { pod: "default/web", port: 8081 },
    });
  });

  it("names pods and a policy of 253 characters each whole, where the kernel has 127 for what it says of a packet", async () => {
    const long = (word: string) => `${word}.${"abcdefgh.".repeat(30)}`.slice(0, 252).concat("z");
    const [longWeb, longDb] = [await add(long("web"), "web"), await add(long("db"), "db")];
    await policy({ metadata: { name: long("close"), namespace: "default" } });
    await until("it is shown", async () => {
      await knock(longDb, longWeb, 8081);
      return (await tortie("drops", `default/${longWeb.name}`)).stdout.includes(":8081, identity ");
    });
    const { drops } = JSON.parse((await tortie("drops", "--json")).stdout);
    expect(drops[0]).toMatchObject({
      pod: `default/${longWeb.name}`,
      policies: [`default/${long("close")}`],
      source: { pod: `default/${longDb.name}` },
      destination: { pod: `default/${longWeb.name}`, port: 8081 },
    });
  });

  it("names a host end that nobody knows, and a packet that begins no connection", async () => {
    await policy();
    const stranger = await at.node.addPod();
    await at.node.ip("link", "add", "calistranger", "type", "veth", "peer", "name", "e0", "netns", stranger.name);
    await at.node.ip("address", "add", "10.250.0.1/24", "dev", "calistranger");
    await at.node.ip("link", "set", "calistranger", "up");
    await at.node.podIp(stranger, "address", "add", "10.250.0.2/24", "dev", "e0");
    await at.node.podIp(stranger, "link", "set", "e0", "up");
    const datagram = `import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("10.250.0.1", 53))`;
    await at.node.run(["/usr/bin/python3", "-c", datagram], {}, stranger);
    await until("it is shown", async () => (await tortie("drops", "calistranger")).stdout.includes("endpoint-unknown"));
    expect((await tortie("drops", "calistranger")).stdout).toMatch(
      /^\S+Z {2}calistranger {2}egress endpoint-unknown {2}UDP 10\.250\.0\.2:\d+ to 10\.250\.0\.1:53 {2}nobody has said yet/,
    );
    const acknowledge = `import socket,struct
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
s.sendto(struct.pack("!HHIIBBHHH", 4000, 80, 1, 1, 80, 16, 1024, 0, 0), ("${web.address[4]}", 0))`;
    await at.node.run(["/usr/bin/python3", "-c", acknowledge], {}, db.pod);
    await until("it is shown too", async () => /tcp-without-syn|invalid/.test((await tortie("drops")).stdout));
  });

  it("shows them as they come, and ends with SIGINT, or when the agent ends", async () => {
    await policy();
    const [output, pid] = [join(at.node.dir, "lines"), join(at.node.dir, "follow.pid")];
    const follow = (file: string) => {
      const command = `echo $$ >${pid}; exec ${join(BIN_DIR, "tortiectl")} policy drops --follow --socket ${at.agent.socket} >${file}`;
      return at.node.run(["/bin/sh", "-c", command]);
    };
    const first = follow(output);
    await until("a drop is shown", async () => {
      await knock(db, web, 8081);
      return existsSync(output) && readFileSync(output, "utf8").includes("default/web  ingress denied");
    });
    process.kill(Number(readFileSync(pid, "utf8")), "SIGINT");
    expect(await first).toMatchObject({ exit: 0, stderr: "" });
    const second = follow(`${output}2`);
    await until("it follows", async () => {
      await knock(db, web, 8082);
      return existsSync(`${output}2`) && readFileSync(`${output}2`, "utf8").includes(":8082");
    });
    expect(await at.agent.stop()).toBe(0);
    expect(await second).toMatchObject({ exit: 1, stderr: expect.stringContaining("has ended") });
  });
});

describe("tortiectl policy wait", () => {
  it("knows no policy that is not there, and fails with what is missing when the time is over", async () => {
    expect(await tortie("wait", "--policy", "default/none")).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining("policy-unknown: "),
    });
    await policy();
    expect(await tortie("wait", "--policy", "default/close")).toMatchObject({
      exit: 0,
      stdout: expect.stringContaining("holds default/close"),
    });
    const late = await tortie("wait", "--policy", "default/close", "--resource-version", "other", "--timeout", "0.3");
    expect(late).toMatchObject({ exit: 1, stderr: expect.stringMatching(/does not hold default\/close after 0\.3 s\n.* not other/) });
    expect(await tortie("wait", "--timeout", "301")).toMatchObject({ exit: 2 });
  });
});

describe("tortiectl policy off", () => {
  it("is refused while an agent enforces policy, and opens the node when it is gone", async () => {
    await policy();
    expect(await tortie("off")).toMatchObject({ exit: 1, stderr: expect.stringContaining("(policy-in-use)") });
    const table = async () => (await at.node.run(["/usr/sbin/nft", "list", "table", "inet", "tortie-policy"])).exit;
    expect(await table()).toBe(0);
    await at.agent.stop();
    expect(await table()).toBe(0);
    const done = await tortie("off");
    expect(done).toMatchObject({ exit: 0, stdout: expect.stringContaining("table inet tortie-policy is removed") });
    expect(await table()).toBe(1);
    expect(await tortie("off")).toMatchObject({ exit: 0, stdout: expect.stringContaining("off on this node already") });
    expect(JSON.parse((await tortie("off", "--json")).stdout)).toEqual({
      table: false,
      dropped: 0,
      "agent-enforces": false,
    });
  });

  it("with --force says that the agent makes the table again", async () => {
    await policy();
    expect(await tortie("off", "--force")).toMatchObject({ exit: 0, stdout: expect.stringContaining("it makes the table again") });
  });
});

describe("an agent without policy", () => {
  it("says why", async () => {
    await using without = await PolicyAgentNode.create(["--policy", "off"]);
    for (const argv of [["list"], ["explain", "db", "web", "80"], ["drops"], ["drops", "-f"], ["wait"]]) {
      expect(await tortieAt(without, argv)).toMatchObject({
        exit: 1,
        stderr: expect.stringMatching(/the agent was started with --policy off\n.*policy-off: /),
      });
    }
    expect(await tortieAt(without, ["off"])).toMatchObject({ exit: 0 });
  });
});
