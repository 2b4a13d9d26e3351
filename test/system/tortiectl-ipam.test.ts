/** `tortiectl ipam` over a local datastore that the real plugins have filled; what stands in it is read through the datastore port. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readSnapshot } from "../../doctor/snapshot.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { type LocalDatastore, openLocalDatastore } from "../../lib/datastore/local/local-datastore.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import { addressesOf } from "../support/cni-result.ts";
import { dualIpam, localConf, podArgs } from "../support/conf.ts";
import { fresh } from "../support/fixtures.ts";
import { BIN_DIR, Node, type Pod, type RunResult } from "../support/node.ts";
import { sampleAffinity } from "../support/samples.ts";

/** Blocks of 8, so that maps fit into a test. */
const IPAM = dualIpam("4", { pools: [{ cidr: "10.244.0.0/24", blockSize: 29, name: "small" }] });

const node = fresh(Node.create);
const conf = () => localConf(node, { ipam: IPAM });
const WEB = { containerId: "cid1", args: podArgs("web") };
const DB = { containerId: "cid2", args: podArgs("db") };

/** Two pods of the network net1, with the address of each. */
let web: Pod;
let db: Pod;
let first: string;
let second: string;

beforeEach(async () => {
  node.excuse("its store is damaged, and addresses are released behind the pods' backs", "not-granted", "miscounted");
  [web, db] = [await node.addPod(), await node.addPod()];
  const runs = [await node.cni("ADD", { pod: web, conf: conf(), ...WEB }), await node.cni("ADD", { pod: db, conf: conf(), ...DB })];
  for (const { exit, stdout } of runs) if (exit !== 0) throw new Error(stdout);
  [first = "", second = ""] = runs.flatMap(({ json }) => addressesOf(json));
});

async function ipam(verb: string, ...args: string[]): Promise<RunResult> {
  return anywhere(verb, "--datastore", node.datastorePath, ...args);
}

async function anywhere(verb: string, ...args: string[]): Promise<RunResult> {
  return node.run([join(BIN_DIR, "tortiectl"), "ipam", verb, ...args], { env: {} });
}

async function json(verb: string, ...args: string[]): Promise<{ readonly exit: number | null; readonly report: unknown }> {
  const run = await ipam(verb, ...args, "--json");
  return { exit: run.exit, report: JSON.parse(run.stdout) };
}

/** Works on the store as another program would. */
async function store<T>(work: (datastore: LocalDatastore) => Promise<T>): Promise<T> {
  await using datastore = openLocalDatastore(node.datastorePath);
  return await work(datastore);
}

/** The only block. */
async function block(): Promise<Versioned<Block>> {
  const [only] = await store(({ blocks }) => blocks.list());
  if (only === undefined) throw new Error("no block");
  return only;
}

/** Takes the first pod's address away from the block, and the handle with it. */
async function loseFirstAddress(): Promise<void> {
  const { value, revision } = await block();
  const { allocations, unallocated } = value;
  await store(async ({ blocks, handles }) => {
    const handle = await handles.get("net1.cid1");
    await blocks.update(value.cidr, { ...value, allocations: allocations.with(0, null), unallocated: [...unallocated, 0] }, revision);
    await handles.delete("net1.cid1", handle?.revision ?? "");
  });
}

describe("tortiectl ipam show", () => {
  it("shows each pool as a bar with its figures, in plain text where nobody looks", async () => {
    const run = await ipam("show");

    expect(run).toMatchObject({ exit: 0, stderr: "" });
    expect(run.stdout).not.toContain("\u001b");
    expect(run.stdout).toMatch(/^10\.244\.0\.0\/24 {2}pool small {2}1 block, 1 owner$/m);
    expect(run.stdout).toMatch(/^ {2}█·{63} {2}0\.7 %$/m);
    expect(run.stdout).toMatch(/^ {2}2 used, 254 free of 256$/m);
  });

  it("colours where it is asked to", async () => {
    const run = await node.run([join(BIN_DIR, "tortiectl"), "ipam", "show", "--datastore", node.datastorePath], {
      env: { FORCE_COLOR: "1" },
    });

    expect(run.stdout).toContain("\u001b[32m█\u001b[39m");
  });

  it("maps every address of a block: used, borrowed, cooling, reserved and free", async () => {
    await ipam("configure", "--ip-cooldown-seconds", "600");
    const { value, revision } = await block();
    const [network = ""] = value.cidr.split("/");
    const last = network.replace(/\d+$/, (octet) => String(Number(octet) + 7));
    const borrowed = {
      ...value,
      allocations: value.allocations.with(4, 2),
      unallocated: value.unallocated.filter((one) => one !== 4),
      attributes: [...value.attributes, { handleId: "net1.far", activeOwner: { node: "far" } }],
    };
    await store(async ({ reservations, blocks }) => {
      await reservations.create("gateway", { name: "gateway", reservedCIDRs: [last] });
      await blocks.update(value.cidr, borrowed, revision);
    });
    await ipam("release", "--ip", second);

    const run = await ipam("show", "--blocks");

    expect(run.stdout).toMatch(/^ {4}█▒··▓··× {2}10\.244\.0\.\d+$/m);
    expect(run.stdout).toMatch(/^ {2}10\.244\.0\.\d+\/29 {2}of host node1 {2}1 used, 1 borrowed, 1 cooling, 1 reserved, 4 free of 8$/m);
    expect(run.stdout).toMatch(/^█ used {2}▓ borrowed {2}▒ cooling {2}× reserved {2}· free$/m);
    const figures = { used: 1, borrowed: 1, cooling: 1, reserved: 1 };
    expect(await json("show", "--blocks")).toMatchObject({
      exit: 0,
      report: {
        pools: [
          { name: "small", capacity: 256, ...figures, free: 252, blocks: [{ owner: "host:node1", capacity: 8, ...figures, free: 4 }] },
        ],
      },
    });
  });

  it("says who has an address", async () => {
    const run = await ipam("show", "--ip", first);

    expect(run).toMatchObject({ exit: 0, stderr: "" });
    expect(run.stdout).toMatch(/^10\.244\.0\.\d+ is used$/m);
    expect(run.stdout).toMatch(/^ {2}handle +net1\.cid1$/m);
    expect(run.stdout).toMatch(/^ {2}pod +default\/web$/m);
    expect(run.stdout).toMatch(/^ {2}endpoint +default\/node1-k8s-web-eth0$/m);
    expect(await json("show", "--ip", first)).toMatchObject({
      report: {
        address: first,
        standing: "used",
        node: "node1",
        pod: "default/web",
        block: (await block()).value.cidr,
        owner: "host node1",
      },
    });
  });

  it("says what an address is that nobody has", async () => {
    await ipam("configure", "--ip-cooldown-seconds", "600");
    await store(({ reservations }) => reservations.create("some", { name: "some", reservedCIDRs: ["10.244.0.200/30"] }));
    await ipam("release", "--ip", first);

    expect((await json("show", "--ip", first)).report).toMatchObject({ standing: "cooling down", freeAgain: expect.any(String) });
    expect((await json("show", "--ip", "10.244.0.201")).report).toMatchObject({ standing: "reserved" });
    expect((await json("show", "--ip", "10.244.0.205")).report).toMatchObject({ standing: "free" });
    expect(await ipam("show", "--ip", "192.0.2.1")).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining("192.0.2.1 is not in a configured pool"),
    });
    expect(await ipam("show", "--ip", "10.244.0.300")).toMatchObject({
      exit: 2,
      stderr: expect.stringContaining("is not an address"),
    });
  });
});

describe("tortiectl ipam check", () => {
  it("finds nothing in what the plugins leave, while pods live and after they are gone", async () => {
    expect(await json("check", "--grace", "0", "--strict")).toEqual({
      exit: 0,
      report: expect.objectContaining({ problems: [], notes: [] }),
    });
    expect((await ipam("check")).stdout).toMatch(/^ok local datastore .*: blocks, affinities, handles and endpoints agree$/m);

    expect(await node.cni("DEL", { pod: web, conf: conf(), ...WEB })).toMatchObject({ exit: 0 });
    expect(await node.cni("DEL", { pod: db, conf: conf(), ...DB })).toMatchObject({ exit: 0 });
    expect(await json("check", "--grace", "0", "--strict")).toEqual({
      exit: 0,
      report: expect.objectContaining({ problems: [], notes: [] }),
    });
  });

  it("names each problem with its object and the next step, and changes nothing", async () => {
    await loseFirstAddress();
    await store(({ handles, affinities }) =>
      Promise.all([
        handles.create("net1.gone", { id: "net1.gone", blocks: { "10.244.0.0/29": 1 } }),
        affinities.create(sampleAffinity("node9", "10.244.0.248/29"), sampleAffinity("node9", "10.244.0.248/29")),
      ]),
    );
    const before = await store(readSnapshot);

    const run = await ipam("check", "--settle", "0");

    expect(run.exit).toBe(1);
    expect(run.stdout).toMatch(/^problem {2}affinity of host node9 for block 10\.244\.0\.248\/29 the block does not exist$/m);
    expect(run.stdout).toMatch(/^problem {2}handle net1\.gone no block has an address of it \(it counts 1 in 10\.244\.0\.0\/29\)$/m);
    expect(run.stdout).toMatch(/^problem {2}address 10\.244\.0\.\d+ of endpoint default\/node1-k8s-web-eth0 is not allocated: /m);
    expect(run.stdout).toMatch(/^ {6}next mend it with: tortiectl ipam check --repair \(handle-orphan\)$/m);
    expect(run.stdout).toMatch(/^4 problems in local datastore /m);
    expect(await store(readSnapshot)).toEqual(before);
  });

  it("mends with --repair, and a pod keeps the address that was lost for it", async () => {
    await loseFirstAddress();

    const lock = join(node.dir, "ipam.lock");
    const run = await ipam("check", "--repair", "--settle", "0", "--lock-file", lock);

    expect(run).toMatchObject({ exit: 0, stderr: "" });
    expect(run.stdout).toMatch(/^mended {3}address 10\.244\.0\.\d+ of endpoint default\/node1-k8s-web-eth0 is not allocated/m);
    expect(run.stdout).toMatch(/^ {4}repair allocates it to the endpoint that uses it \(address-not-allocated\)$/m);
    expect(run.stdout).toMatch(/^ok /m);
    expect((await json("show", "--ip", first)).report).toMatchObject({ standing: "used", handle: "net1.cid1", pod: "default/web" });
    expect(await json("check")).toMatchObject({ exit: 0, report: { problems: [] } });
    expect(await node.cni("DEL", { pod: web, conf: conf(), ...WEB })).toMatchObject({ exit: 0 });
    expect((await json("show", "--ip", first)).report).toMatchObject({ standing: "free" });
  });

  it("waits for the plugin that has the node's lock before it writes", async () => {
    await store(({ handles }) => handles.create("net1.gone", { id: "net1.gone", blocks: { "10.244.0.0/29": 1 } }));
    const lock = join(node.dir, "ipam.lock");
    const repair = `${BIN_DIR}/tortiectl ipam check --repair --settle 0 --lock-file ${lock} --datastore ${node.datastorePath}`;

    const held = `exec 9>${lock}; flock 9; ${repair} & sleep 1; kill -0 $! && echo waits; flock -u 9; wait $!; echo done $?`;
    const run = await node.run(["/bin/sh", "-c", held], { env: { PATH: "/usr/bin:/bin" } });

    expect(run.stdout).toMatch(/^waits\n[\s\S]*done 0\n$/);
  });
});

describe("tortiectl ipam release", () => {
  it("releases an address, says whose it was, and warns while an endpoint uses it", async () => {
    const run = await ipam("release", "--ip", first);

    expect(run.exit).toBe(0);
    expect(run.stdout).toBe(`released ${first} (handle net1.cid1, pod default/web on node node1)\n`);
    expect(run.stderr).toContain(`endpoint default/node1-k8s-web-eth0 still uses ${first}`);
    expect(await store(({ handles }) => handles.get("net1.cid1"))).toBeUndefined();
    expect(await ipam("release", "--ip", first)).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining(`IP address ${first} is not assigned`),
    });
  });

  it.each([
    ["--handle", "net1.cid1"],
    ["--container", "cid1"],
  ])("releases all that %s %s holds, and nothing else", async (option, value) => {
    expect(await json("release", option, value)).toMatchObject({
      exit: 0,
      report: { released: [{ address: first, handle: "net1.cid1" }], notAssigned: [] },
    });

    expect((await json("show", "--ip", first)).report).toMatchObject({ standing: "free" });
    expect((await json("show", "--ip", second)).report).toMatchObject({ standing: "used" });
    expect(await ipam("release", option, value)).toMatchObject({ exit: 1, stderr: expect.stringContaining("holds no address") });
  });

  it("wants to be told what", async () => {
    expect(await ipam("release")).toMatchObject({ exit: 2, stderr: expect.stringContaining("give --ip, --handle or --container") });
  });
});

describe("tortiectl ipam configure", () => {
  it("shows before and after, and the plugins follow", async () => {
    const run = await ipam("configure", "--strict-affinity", "--max-blocks-per-host", "1");

    expect(run).toMatchObject({ exit: 0, stderr: "" });
    expect(run.stdout).toMatch(/^ {2}strictAffinity +false +→ true$/m);
    expect(run.stdout).toMatch(/^ {2}maxBlocksPerHost +0 +→ 1$/m);
    expect(run.stdout).toMatch(/^ {2}ipCooldownSeconds +0$/m);
    const adds = [];
    for (let number = 3; number <= 9; number++) {
      const options = { plugin: "tortie-ipam", conf: conf(), containerId: `cid${number}`, netns: "/run/netns/none" };
      adds.push((await node.cni("ADD", options)).exit);
    }
    expect(adds).toEqual([0, 0, 0, 0, 0, 0, 1]);
  });

  it("writes nothing when nothing differs, or when only asked", async () => {
    expect((await ipam("configure", "--ip-cooldown-seconds", "0")).stdout).toContain("nothing to change");
    expect(await json("configure")).toMatchObject({ exit: 0, report: { changed: [], before: { autoAllocateBlocks: true } } });
    expect(await store(({ ipamConfiguration }) => ipamConfiguration.get("default"))).toBeUndefined();
  });

  it.each([
    [["--no-auto-allocate-blocks"], "needs --strict-affinity"],
    [["--max-blocks-per-host", "3"], "needs --strict-affinity"],
    [["--ip-cooldown-seconds", "1201"], "from 0 to 1200"],
    [["--ip-cooldown-seconds", "-1"], "from 0 to 1200"],
    [["--max-blocks-per-host", "2.5", "--strict-affinity"], "whole number"],
    [["--max-blocks-per-host", "many", "--strict-affinity"], "whole number"],
  ])("refuses %p", async (options, reason) => {
    expect(await ipam("configure", ...options)).toMatchObject({ exit: 2, stdout: "", stderr: expect.stringContaining(reason) });
    expect(await store(({ ipamConfiguration }) => ipamConfiguration.get("default"))).toBeUndefined();
  });

  it("refuses to take away what a field that is set already needs", async () => {
    await ipam("configure", "--strict-affinity", "--no-auto-allocate-blocks");

    expect(await ipam("configure", "--no-strict-affinity")).toMatchObject({
      exit: 2,
      stderr: expect.stringContaining("--no-auto-allocate-blocks"),
    });
  });
});

describe("the datastore that is meant", () => {
  it("is that of our plugin in a conflist", async () => {
    const { cniVersion, name, ...plugin } = conf();
    const file = join(node.dir, "10-net.conflist");
    writeFileSync(file, JSON.stringify({ cniVersion, name, plugins: [plugin, { type: "portmap", capabilities: { portMappings: true } }] }));
    const bridge = join(node.dir, "20-bridge.conflist");
    writeFileSync(bridge, JSON.stringify({ cniVersion, name, plugins: [{ ...plugin, type: "bridge" }] }));
    const foreign = join(node.dir, "30-foreign.conflist");
    writeFileSync(foreign, JSON.stringify({ cniVersion, name, plugins: [{ type: "ptp", ipam: { type: "host-local" } }] }));

    for (const list of [file, bridge]) {
      const run = await anywhere("show", "--conf", list, "--json");
      expect(JSON.parse(run.stdout)).toMatchObject({ pools: [{ name: "small", used: 2 }] });
    }
    expect(await anywhere("show", "--conf", foreign)).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining("no plugin of type tortie, calico"),
    });
    expect(await anywhere("show", "--conf", file, "--datastore", node.datastorePath)).toMatchObject({ exit: 2 });
  });

  it.each([[["show"]], [["check"]], [["check", "--repair"]], [["release", "--ip", "10.244.0.1"]], [["configure"]]])(
    "is not made by %p when the file is missing",
    async (command) => {
      const missing = join(node.dir, "missing.db");
      const [verb = "", ...options] = command;

      expect(await anywhere(verb, "--datastore", missing, ...options)).toMatchObject({
        exit: 1,
        stderr: expect.stringContaining(`local datastore ${missing} does not exist`),
      });
      expect(existsSync(missing)).toBe(false);
    },
  );

  it("is refused, and left as it is, when it is no datastore of ours", async () => {
    const file = join(node.dir, "other.db");
    writeFileSync(file, "not a database, but long enough to be looked at ".repeat(4));

    expect(await anywhere("check", "--repair", "--datastore", file)).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining("(datastore-damaged)"),
    });
  });
});
