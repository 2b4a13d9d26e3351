/**
 * A tenant who chooses namespaces, names of pods and their annotations at will. Whatever is chosen, nothing of another tenant is freed or
 * replaced, and what is refused leaves nothing behind.
 */
import { localConf, podArgs } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { type CniRun, Node, type Pod } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

/** SHA-1 of "tenant-a.p1284689" and of "tenant-b.p3021008" begin with the same 44 bits: one interface name for both. */
const VICTIM = { namespace: "tenant-a", pod: "p1284689" };
const COLLIDING = { namespace: "tenant-b", pod: "p3021008" };
const HOST_END = "calif2241e1b22d";

interface Name {
  readonly namespace: string;
  readonly pod: string;
}

function call(node: Node, verb: string, { namespace, pod }: Name, containerId: string, sandbox?: Pod): Promise<CniRun> {
  const where = sandbox === undefined ? { netns: "" } : { pod: sandbox };
  return node.cni(verb, { containerId, ...where, args: podArgs(pod, namespace, containerId), conf: localConf(node) });
}

/** What another tenant could lose: its interface and its route, its address and its record. */
async function stateOf(node: Node, sandbox: Pod): Promise<unknown> {
  const [links, routes, store] = [
    await node.podIp(sandbox, "-j", "address", "show", "eth0"),
    await node.leftovers(),
    await readStore(node),
  ];
  return { links, routes, handles: store.handles, allocated: store.allocated, endpoints: store.endpoints };
}

async function withVictim(node: Node): Promise<Pod> {
  const sandbox = await node.addPod("victim");
  expect(await call(node, "ADD", VICTIM, "victim", sandbox)).toMatchObject({ exit: 0 });
  expect((await node.leftovers()).links).toEqual([HOST_END]);
  return sandbox;
}

const node = fresh(Node.create);

describe("A pod whose interface has the name of another pod's (M2)", () => {
  it("M2: is refused, naming both, and the other keeps its interface, route, address and record", async () => {
    const victim = await withVictim(node);
    const before = await stateOf(node, victim);
    const sandbox = await node.addPod("attacker");

    const run = await call(node, "ADD", COLLIDING, "attacker", sandbox);

    expect(run).toMatchObject({ exit: 1, json: { details: expect.stringContaining("interface-exists") } });
    for (const part of [HOST_END, "tenant-a/p1284689", "tenant-b/p3021008"]) expect(run.stdout).toContain(part);
    expect(await stateOf(node, victim)).toEqual(before);

    expect(await call(node, "DEL", COLLIDING, "attacker", sandbox)).toMatchObject({ exit: 0 });
    expect(await stateOf(node, victim)).toEqual(before);
  });

  it("M2: a new sandbox of the same pod still replaces the link of the old one", async () => {
    const old = await withVictim(node);
    const sandbox = await node.addPod("newer");

    expect(await call(node, "ADD", VICTIM, "newer", sandbox)).toMatchObject({ exit: 0 });

    expect(await node.podIp(old, "-j", "link", "show")).toHaveLength(1);
    expect(await node.podIp(sandbox, "-j", "link", "show", "eth0")).toHaveLength(1);
    expect(await call(node, "DEL", VICTIM, "victim")).toMatchObject({ exit: 0 });
    expect(await node.podIp(sandbox, "-j", "link", "show", "eth0")).toHaveLength(1);
  });

  it("M2: replaces a link that Calico's plugin left, which has no owner", async () => {
    await node.ip("link", "add", HOST_END, "type", "veth", "peer", "name", "calico-pod");
    const sandbox = await node.addPod("pod");
    expect(await call(node, "ADD", VICTIM, "c1", sandbox)).toMatchObject({ exit: 0 });
    expect(await node.podIp(sandbox, "-j", "link", "show", "eth0")).toHaveLength(1);
  });
});

describe("A pod whose name is another's handle (M1)", () => {
  it.each<[string, Name]>([
    ["the network as its namespace and the other's container as its name", { namespace: "net1", pod: "victim" }],
    ["the other's own names", VICTIM],
  ])("M1: with %s frees nothing of the other when it is deleted", async (_, name) => {
    const victim = await withVictim(node);
    const before = await stateOf(node, victim);
    await call(node, "DEL", name, "attacker");
    expect(await stateOf(node, victim)).toEqual(before);
  });
});

/** Names that no API server takes, and lengths that it does. */
const HOSTILE: readonly [string, Name][] = [
  ["go up a directory", { namespace: "..", pod: "../../../etc/passwd" }],
  ["hold escapes of a terminal", { namespace: "a", pod: "\u001b[2J\u009b31m" }],
  ["hold a line of another log", { namespace: "a", pod: "p\n2026-01-01T00:00:00Z info ADD done" }],
  ["are no UTF-8 text of their own", { namespace: "a", pod: "\u202eexe.dop" }],
  ["hold the separators of an alias", { namespace: "net1/victim/eth0", pod: "tenant-a/p1284689" }],
  ["hold the separators of a handle", { namespace: "net1.victim", pod: "net1.victim" }],
  ["look like a tunnel's", { namespace: "vxlan-tunnel-addr-node1", pod: "vxlan-tunnel-addr-node1" }],
  ["are as long as they may be", { namespace: "n".repeat(63), pod: `${"p".repeat(250)}.a` }],
  ["are longer than any name", { namespace: "n".repeat(4000), pod: "p".repeat(4000) }],
  ["are patterns", { namespace: "%s%n*", pod: "[a-z]*?" }],
];

describe("Names of a hostile tenant", () => {
  it.each(HOSTILE)("that %s: are served or refused, leave nothing, and nothing of others is touched", async (_, name) => {
    const victim = await withVictim(node);
    const before = await stateOf(node, victim);
    const sandbox = await node.addPod("attacker");

    const added = await call(node, "ADD", name, "attacker", sandbox);

    expect([0, 1]).toContain(added.exit);
    expect(added.json).toMatchObject(
      added.exit === 0 ? { ips: [expect.anything()] } : { code: expect.any(Number), msg: expect.any(String) },
    );
    if (added.exit === 1) expect(await stateOf(node, victim)).toEqual(before);
    // No control character reaches a terminal that shows the log, and no line of it is the tenant's own.
    const lines = added.stderr.split("\n").filter((line) => line !== "");
    expect(lines.filter((line) => !/^\d{4}-\d\d-\d\dT[^ ]+ (debug|info|error) .*pid=/.test(line) || /\p{Cc}/u.test(line))).toEqual([]);

    await call(node, "DEL", name, "attacker", sandbox);
    expect(await stateOf(node, victim)).toEqual(before);
  });
});
