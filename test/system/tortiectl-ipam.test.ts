/** `tortiectl ipam` over a local datastore that the real plugins have filled; what stands in it is read through the datastore port. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readSnapshot } from "../../doctor/snapshot.ts";
import { type LocalDatastore, openLocalDatastore } from "../../lib/datastore/local/local-datastore.ts";
import { dualIpam, localConf, podArgs } from "../support/conf.ts";
import { fresh } from "../support/fixtures.ts";
import { BIN_DIR, Node, type Pod, type RunResult } from "../support/node.ts";
import { sampleAffinity } from "../support/samples.ts";

/** Blocks of 8, so that maps fit into a test. */
const IPAM = dualIpam("4", { pools: [{ cidr: "10.244.0.0/24", blockSize: 29, name: "small" }] });

/** A machine with two pods of the network net1. */
class Bench implements AsyncDisposable {
  readonly node: Node;
  readonly conf: Record<string, unknown>;
  readonly addresses: string[] = [];
  readonly pods: Pod[] = [];

  private constructor(node: Node) {
    this.node = node;
    this.conf = localConf(node, { ipam: IPAM });
  }

  static async create(): Promise<Bench> {
    const bench = new Bench(await Node.create());
    bench.node.excuse("its store is damaged, and addresses are released behind the pods' backs", "not-granted", "miscounted");
    for (const [index, name] of ["web", "db"].entries()) {
      const pod = await bench.node.addPod();
      const run = await bench.node.cni("ADD", { pod, conf: bench.conf, containerId: `cid${index + 1}`, args: podArgs(name) });
      if (run.exit !== 0) throw new Error(run.stdout);
      const result: { readonly ips: readonly { readonly address: string }[] } = JSON.parse(run.stdout);
      bench.addresses.push(result.ips[0]?.address.split("/")[0] ?? "");
      bench.pods.push(pod);
    }
    return bench;
  }

  async ipam(verb: string, ...args: string[]): Promise<RunResult> {
    return this.anywhere(verb, "--datastore", this.node.datastorePath, ...args);
  }

  async anywhere(verb: string, ...args: string[]): Promise<RunResult> {
    return this.node.run([join(BIN_DIR, "tortiectl"), "ipam", verb, ...args], { env: {} });
  }

  async json(verb: string, ...args: string[]): Promise<{ readonly exit: number | null; readonly report: unknown }> {
    const run = await this.ipam(verb, ...args, "--json");
    return { exit: run.exit, report: JSON.parse(run.stdout) };
  }

  /** Works on the store as another program would. */
  async store<T>(work: (datastore: LocalDatastore) => Promise<T>): Promise<T> {
    await using datastore = openLocalDatastore(this.node.datastorePath);
    return await work(datastore);
  }

  /** The only block, changed by hand. */
  async cidr(): Promise<string> {
    return this.store(async ({ blocks }) => (await blocks.list())[0]?.value.cidr ?? "");
  }

  /** Takes the first pod's address away from the block, and the handle with it. */
  async loseFirstAddress(): Promise<void> {
    await this.store(async ({ blocks, handles }) => {
      const [block] = await blocks.list();
      const handle = await handles.get("net1.cid1");
      if (block === undefined || handle === undefined) throw new Error("nothing there");
      const { allocations, unallocated } = block.value;
      await blocks.update(
        block.value.cidr,
        { ...block.value, allocations: allocations.with(0, null), unallocated: [...unallocated, 0] },
        block.revision,
      );
      await handles.delete("net1.cid1", handle.revision);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]();
  }
}

const bench = fresh(Bench.create);

describe("tortiectl ipam show", () => {
  it("shows each pool as a bar with its figures, in plain text where nobody looks", async () => {
    const run = await bench.ipam("show");

    expect(run).toMatchObject({ exit: 0, stderr: "" });
    expect(run.stdout).not.toContain("\u001b");
    expect(run.stdout).toMatch(/^10\.244\.0\.0\/24 {2}pool small {2}1 block, 1 owner$/m);
    expect(run.stdout).toMatch(/^ {2}█·{63} {2}0\.7 %$/m);
    expect(run.stdout).toMatch(/^ {2}2 used, 254 free of 256$/m);
  });

  it("colours where it is asked to", async () => {
    const run = await bench.node.run([join(BIN_DIR, "tortiectl"), "ipam", "show", "--datastore", bench.node.datastorePath], {
      env: { FORCE_COLOR: "1" },
    });

    expect(run.stdout).toContain("\u001b[32m█\u001b[39m");
  });

  it("maps every address of a block: used, borrowed, cooling, reserved and free", async () => {
    const [, second = ""] = bench.addresses;
    await bench.ipam("configure", "--ip-cooldown-seconds", "600");
    await bench.store(async ({ reservations, blocks }) => {
      const [block] = await blocks.list();
      if (block === undefined) throw new Error("no block");
      const [network = ""] = block.value.cidr.split("/");
      const last = network.replace(/\d+$/, (octet) => String(Number(octet) + 7));
      await reservations.create("gateway", { name: "gateway", reservedCIDRs: [last] });
      const foreign = { handleId: "net1.far", activeOwner: { node: "far" } };
      const { allocations, attributes, unallocated } = block.value;
      await blocks.update(
        block.value.cidr,
        {
          ...block.value,
          allocations: allocations.with(4, 2),
          unallocated: unallocated.filter((one) => one !== 4),
          attributes: [...attributes, foreign],
        },
        block.revision,
      );
    });
    await bench.ipam("release", "--ip", second);

    const run = await bench.ipam("show", "--blocks");

    expect(run.stdout).toMatch(/^ {4}█▒··▓··× {2}10\.244\.0\.\d+$/m);
    expect(run.stdout).toMatch(/^ {2}10\.244\.0\.\d+\/29 {2}of host node1 {2}1 used, 1 borrowed, 1 cooling, 1 reserved, 4 free of 8$/m);
    expect(run.stdout).toMatch(/^█ used {2}▓ borrowed {2}▒ cooling {2}× reserved {2}· free$/m);
    const figures = { used: 1, borrowed: 1, cooling: 1, reserved: 1 };
    expect(await bench.json("show", "--blocks")).toMatchObject({
      exit: 0,
      report: {
        pools: [
          { name: "small", capacity: 256, ...figures, free: 252, blocks: [{ owner: "host:node1", capacity: 8, ...figures, free: 4 }] },
        ],
      },
    });
  });

  it("says who has an address", async () => {
    const [first = ""] = bench.addresses;

    const run = await bench.ipam("show", "--ip", first);

    expect(run).toMatchObject({ exit: 0, stderr: "" });
    expect(run.stdout).toMatch(/^10\.244\.0\.\d+ is used$/m);
    expect(run.stdout).toMatch(/^ {2}handle +net1\.cid1$/m);
    expect(run.stdout).toMatch(/^ {2}pod +default\/web$/m);
    expect(run.stdout).toMatch(/^ {2}endpoint +default\/node1-k8s-web-eth0$/m);
    expect(await bench.json("show", "--ip", first)).toMatchObject({
      report: { address: first, standing: "used", node: "node1", pod: "default/web", block: await bench.cidr(), owner: "host node1" },
    });
  });

  it("says what an address is that nobody has", async () => {
    const [first = ""] = bench.addresses;
    await bench.ipam("configure", "--ip-cooldown-seconds", "600");
    await bench.store(({ reservations }) => reservations.create("some", { name: "some", reservedCIDRs: ["10.244.0.200/30"] }));
    await bench.ipam("release", "--ip", first);

    expect((await bench.json("show", "--ip", first)).report).toMatchObject({ standing: "cooling down", freeAgain: expect.any(String) });
    expect((await bench.json("show", "--ip", "10.244.0.201")).report).toMatchObject({ standing: "reserved" });
    expect((await bench.json("show", "--ip", "10.244.0.205")).report).toMatchObject({ standing: "free" });
    expect(await bench.ipam("show", "--ip", "192.0.2.1")).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining("192.0.2.1 is not in a configured pool"),
    });
    expect(await bench.ipam("show", "--ip", "10.244.0.300")).toMatchObject({
      exit: 2,
      stderr: expect.stringContaining("is not an address"),
    });
  });
});

describe("tortiectl ipam check", () => {
  it("finds nothing in what the plugins leave, while pods live and after they are gone", async () => {
    expect(await bench.json("check", "--grace", "0", "--strict")).toEqual({
      exit: 0,
      report: expect.objectContaining({ problems: [], notes: [] }),
    });
    expect((await bench.ipam("check")).stdout).toMatch(/^ok local datastore .*: blocks, affinities, handles and endpoints agree$/m);

    for (const [index, pod] of bench.pods.entries()) {
      const run = await bench.node.cni("DEL", {
        pod,
        conf: bench.conf,
        containerId: `cid${index + 1}`,
        args: podArgs(index === 0 ? "web" : "db"),
      });
      expect(run).toMatchObject({ exit: 0 });
    }
    expect(await bench.json("check", "--grace", "0", "--strict")).toEqual({
      exit: 0,
      report: expect.objectContaining({ problems: [], notes: [] }),
    });
  });

  it("names each problem with its object and the next step, and changes nothing", async () => {
    await bench.loseFirstAddress();
    await bench.store(({ handles, affinities }) =>
      Promise.all([
        handles.create("net1.gone", { id: "net1.gone", blocks: { "10.244.0.0/29": 1 } }),
        affinities.create(sampleAffinity("node9", "10.244.0.248/29"), sampleAffinity("node9", "10.244.0.248/29")),
      ]),
    );
    const before = await bench.store(readSnapshot);

    const run = await bench.ipam("check", "--settle", "0");

    expect(run.exit).toBe(1);
    expect(run.stdout).toMatch(/^problem {2}affinity of host node9 for block 10\.244\.0\.248\/29 the block does not exist$/m);
    expect(run.stdout).toMatch(/^problem {2}handle net1\.gone no block has an address of it \(it counts 1 in 10\.244\.0\.0\/29\)$/m);
    expect(run.stdout).toMatch(/^problem {2}address 10\.244\.0\.\d+ of endpoint default\/node1-k8s-web-eth0 is not allocated: /m);
    expect(run.stdout).toMatch(/^ {6}next mend it with: tortiectl ipam check --repair \(handle-orphan\)$/m);
    expect(run.stdout).toMatch(/^4 problems in local datastore /m);
    expect(await bench.store(readSnapshot)).toEqual(before);
  });

  it("mends with --repair, and a pod keeps the address that was lost for it", async () => {
    const [first = ""] = bench.addresses;
    await bench.loseFirstAddress();

    const lock = join(bench.node.dir, "ipam.lock");
    const run = await bench.ipam("check", "--repair", "--settle", "0", "--lock-file", lock);

    expect(run).toMatchObject({ exit: 0, stderr: "" });
    expect(run.stdout).toMatch(/^mended {3}address 10\.244\.0\.\d+ of endpoint default\/node1-k8s-web-eth0 is not allocated/m);
    expect(run.stdout).toMatch(/^ {4}repair allocates it to the endpoint that uses it \(address-not-allocated\)$/m);
    expect(run.stdout).toMatch(/^ok /m);
    expect((await bench.json("show", "--ip", first)).report).toMatchObject({ standing: "used", handle: "net1.cid1", pod: "default/web" });
    expect(await bench.json("check")).toMatchObject({ exit: 0, report: { problems: [] } });
    const [pod] = bench.pods;
    if (pod === undefined) throw new Error("no pod");
    expect(await bench.node.cni("DEL", { pod, conf: bench.conf, args: podArgs("web") })).toMatchObject({ exit: 0 });
    expect((await bench.json("show", "--ip", first)).report).toMatchObject({ standing: "free" });
  });

  it("waits for the plugin that has the node's lock before it writes", async () => {
    await bench.store(({ handles }) => handles.create("net1.gone", { id: "net1.gone", blocks: { "10.244.0.0/29": 1 } }));
    const lock = join(bench.node.dir, "ipam.lock");
    const repair = `${BIN_DIR}/tortiectl ipam check --repair --settle 0 --lock-file ${lock} --datastore ${bench.node.datastorePath}`;

    const held = `exec 9>${lock}; flock 9; ${repair} & sleep 1; kill -0 $! && echo waits; flock -u 9; wait $!; echo done $?`;
    const run = await bench.node.run(["/bin/sh", "-c", held], { env: { PATH: "/usr/bin:/bin" } });

    expect(run.stdout).toMatch(/^waits\n[\s\S]*done 0\n$/);
  });
});

describe("tortiectl ipam release", () => {
  it("releases an address, says whose it was, and warns while an endpoint uses it", async () => {
    const [first = ""] = bench.addresses;

    const run = await bench.ipam("release", "--ip", first);

    expect(run.exit).toBe(0);
    expect(run.stdout).toBe(`released ${first} (handle net1.cid1, pod default/web on node node1)\n`);
    expect(run.stderr).toContain(`endpoint default/node1-k8s-web-eth0 still uses ${first}`);
    expect(await bench.store(({ handles }) => handles.get("net1.cid1"))).toBeUndefined();
    expect(await bench.ipam("release", "--ip", first)).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining(`IP address ${first} is not assigned`),
    });
  });

  it.each([
    ["--handle", "net1.cid1"],
    ["--container", "cid1"],
  ])("releases all that %s %s holds, and nothing else", async (option, value) => {
    const [first = "", second = ""] = bench.addresses;

    expect(await bench.json("release", option, value)).toMatchObject({
      exit: 0,
      report: { released: [{ address: first, handle: "net1.cid1" }], notAssigned: [] },
    });

    expect((await bench.json("show", "--ip", first)).report).toMatchObject({ standing: "free" });
    expect((await bench.json("show", "--ip", second)).report).toMatchObject({ standing: "used" });
    expect(await bench.ipam("release", option, value)).toMatchObject({ exit: 1, stderr: expect.stringContaining("holds no address") });
  });

  it("wants to be told what", async () => {
    expect(await bench.ipam("release")).toMatchObject({ exit: 2, stderr: expect.stringContaining("give --ip, --handle or --container") });
  });
});

describe("tortiectl ipam configure", () => {
  it("shows before and after, and the plugins follow", async () => {
    const run = await bench.ipam("configure", "--strict-affinity", "--max-blocks-per-host", "1");

    expect(run).toMatchObject({ exit: 0, stderr: "" });
    expect(run.stdout).toMatch(/^ {2}strictAffinity +false +→ true$/m);
    expect(run.stdout).toMatch(/^ {2}maxBlocksPerHost +0 +→ 1$/m);
    expect(run.stdout).toMatch(/^ {2}ipCooldownSeconds +0$/m);
    const adds = [];
    for (let number = 3; number <= 9; number++) {
      const options = { plugin: "tortie-ipam", conf: bench.conf, containerId: `cid${number}`, netns: "/run/netns/none" };
      adds.push((await bench.node.cni("ADD", options)).exit);
    }
    expect(adds).toEqual([0, 0, 0, 0, 0, 0, 1]);
  });

  it("writes nothing when nothing differs, or when only asked", async () => {
    expect((await bench.ipam("configure", "--ip-cooldown-seconds", "0")).stdout).toContain("nothing to change");
    expect(await bench.json("configure")).toMatchObject({ exit: 0, report: { changed: [], before: { autoAllocateBlocks: true } } });
    expect(await bench.store(({ ipamConfiguration }) => ipamConfiguration.get("default"))).toBeUndefined();
  });

  it.each([
    [["--no-auto-allocate-blocks"], "needs --strict-affinity"],
    [["--max-blocks-per-host", "3"], "needs --strict-affinity"],
    [["--ip-cooldown-seconds", "1201"], "from 0 to 1200"],
    [["--ip-cooldown-seconds", "-1"], "from 0 to 1200"],
    [["--max-blocks-per-host", "2.5", "--strict-affinity"], "whole number"],
    [["--max-blocks-per-host", "many", "--strict-affinity"], "whole number"],
  ])("refuses %p", async (options, reason) => {
    expect(await bench.ipam("configure", ...options)).toMatchObject({ exit: 2, stdout: "", stderr: expect.stringContaining(reason) });
    expect(await bench.store(({ ipamConfiguration }) => ipamConfiguration.get("default"))).toBeUndefined();
  });

  it("refuses to take away what a field that is set already needs", async () => {
    await bench.ipam("configure", "--strict-affinity", "--no-auto-allocate-blocks");

    expect(await bench.ipam("configure", "--no-strict-affinity")).toMatchObject({
      exit: 2,
      stderr: expect.stringContaining("--no-auto-allocate-blocks"),
    });
  });
});

describe("the datastore that is meant", () => {
  it("is that of our plugin in a conflist", async () => {
    const { cniVersion, name, ...plugin } = bench.conf;
    const file = join(bench.node.dir, "10-net.conflist");
    writeFileSync(file, JSON.stringify({ cniVersion, name, plugins: [plugin, { type: "portmap", capabilities: { portMappings: true } }] }));
    const bridge = join(bench.node.dir, "20-bridge.conflist");
    writeFileSync(bridge, JSON.stringify({ cniVersion, name, plugins: [{ ...plugin, type: "bridge" }] }));
    const foreign = join(bench.node.dir, "30-foreign.conflist");
    writeFileSync(foreign, JSON.stringify({ cniVersion, name, plugins: [{ type: "ptp", ipam: { type: "host-local" } }] }));

    for (const conf of [file, bridge]) {
      const run = await bench.anywhere("show", "--conf", conf, "--json");
      expect(JSON.parse(run.stdout)).toMatchObject({ pools: [{ name: "small", used: 2 }] });
    }
    expect(await bench.anywhere("show", "--conf", foreign)).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining("no plugin of type tortie, calico"),
    });
    expect(await bench.anywhere("show", "--conf", file, "--datastore", bench.node.datastorePath)).toMatchObject({ exit: 2 });
  });

  it.each([[["show"]], [["check"]], [["check", "--repair"]], [["release", "--ip", "10.244.0.1"]], [["configure"]]])(
    "is not made by %p when the file is missing",
    async (command) => {
      const missing = join(bench.node.dir, "missing.db");
      const [verb = "", ...options] = command;

      expect(await bench.anywhere(verb, "--datastore", missing, ...options)).toMatchObject({
        exit: 1,
        stderr: expect.stringContaining(`local datastore ${missing} does not exist`),
      });
      expect(existsSync(missing)).toBe(false);
    },
  );

  it("is refused, and left as it is, when it is no datastore of ours", async () => {
    const file = join(bench.node.dir, "other.db");
    writeFileSync(file, "not a database, but long enough to be looked at ".repeat(4));

    expect(await bench.anywhere("check", "--repair", "--datastore", file)).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining("(datastore-damaged)"),
    });
  });
});
