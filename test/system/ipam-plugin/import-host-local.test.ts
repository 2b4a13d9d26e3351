/** The upgrade from host-local (I§7), on directories that the real host-local made. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Allocator } from "../../../ipam-plugin/allocator/allocator.ts";
import { type HostLocalDirectory, openHostLocalDirectory } from "../../../ipam-plugin/import-host-local/host-local-directory.ts";
import {
  type PodOfNode,
  type UpgradeCluster,
  type UpgradePorts,
  upgrade,
  upgradeUntilDone,
} from "../../../ipam-plugin/import-host-local/upgrade.ts";
import { formatAddress, parseAddress } from "../../../lib/addresses/address.ts";
import { DatastoreError } from "../../../lib/datastore/errors.ts";
import { address } from "../../support/addresses.ts";
import { fresh } from "../../support/fixtures.ts";
import { addToHostLocal, directoryOf, type HostLocalNetwork, hostLocalCall } from "../../support/host-local.ts";
import { MemoryStore } from "../../support/memory-datastore.ts";
import { samplePool } from "../../support/samples.ts";

const NETWORK = "k8s-pod-network";
const TUNNEL = "10.65.0.1";
const TUNNEL_HANDLE = "ipip-tunnel-addr-node-a";

/** One node's directory, and a cluster of which that node is one. */
class World implements Disposable {
  readonly parent = mkdtempSync(join(tmpdir(), "tortie-upgrade-"));
  readonly network: HostLocalNetwork;
  readonly store = new MemoryStore().connect();
  readonly logged: string[] = [];
  readonly slept: number[] = [];
  /** What was asked of the cluster that others notice, in order. */
  readonly deeds: string[] = [];
  pods: PodOfNode[] = [];
  podCidr: string | undefined = "10.65.0.0/24";
  tunnelAddress: string | undefined;
  isReady = true;
  /** How many writes of cluster objects still conflict. */
  conflicts = 0;

  constructor(cidrs: readonly string[] = ["10.65.0.0/24"]) {
    this.network = { dataDir: this.parent, name: NETWORK, cidrs };
  }

  get path(): string {
    return directoryOf(this.network);
  }

  async addPool(cidr = "10.65.0.0/16"): Promise<void> {
    const name = `pool-${cidr.replace(/[.:/]/g, "-")}`;
    await this.store.pools.create(name, samplePool(name, cidr, { blockSize: cidr.includes(":") ? 122 : 26 }));
  }

  /** A running pod with addresses of host-local's. */
  addPod(name: string): readonly string[] {
    const addresses = addToHostLocal(this.network, `${name}-container`);
    this.pods.push({ namespace: "shop", name, addresses });
    return addresses;
  }

  readonly cluster: UpgradeCluster = {
    pods: async () => this.pods,
    podCidr: async () => this.podCidr,
    tunnelAddress: async () => this.tunnelAddress,
    setTunnelAddress: async (address) => {
      this.#mayConflict();
      this.tunnelAddress = address;
      this.deeds.push(`tunnel ${address}`);
    },
    pause: async () => {
      this.#mayConflict();
      this.isReady = false;
      this.deeds.push(`not ready, ${this.#files()} files`);
    },
    isPausing: async () => !this.isReady,
    resume: async () => {
      this.#mayConflict();
      this.isReady = true;
      this.deeds.push("ready");
    },
    removePlugins: async () => {
      this.deeds.push("plugins removed");
    },
  };

  ports(changes: Partial<UpgradePorts> = {}): UpgradePorts {
    return {
      node: "node-a",
      network: NETWORK,
      allocator: this.allocator(),
      directory: openHostLocalDirectory(this.path),
      cluster: this.cluster,
      sleep: async (milliseconds) => {
        this.slept.push(milliseconds);
      },
      log: { info: (message) => this.#note(message), error: (message) => this.#note(message) },
      ...changes,
    };
  }

  allocator(): Allocator {
    let now = 1_787_405_600_000_000_000n;
    const clock = { nowMs: () => 1_787_405_600_000, nowNs: () => now++ };
    return new Allocator({ datastore: this.store, clock, sleep: async () => {} });
  }

  /** Address → handle and attributes. */
  async held(): Promise<Record<string, readonly [string | undefined, object]>> {
    const allocator = this.allocator();
    const found: Record<string, readonly [string | undefined, object]> = {};
    for (const { value: handle } of await this.store.handles.list()) {
      const held = (await allocator.addressesByHandle(handle.id)) ?? [];
      for (const { address, activeOwner } of held) found[formatAddress(address)] = [handle.id, activeOwner];
    }
    return found;
  }

  [Symbol.dispose](): void {
    rmSync(this.parent, { recursive: true, force: true });
  }

  #files(): number {
    return readdirSync(this.path).filter((name) => parseAddress(name) !== undefined).length;
  }

  #mayConflict(): void {
    if (this.conflicts === 0) return;
    this.conflicts--;
    throw new DatastoreError("conflict", "update conflict: arranged");
  }

  #note(message: string): void {
    this.logged.push(message);
  }
}

function podOwner(pod: string) {
  return [`${NETWORK}.${pod}-container`, { node: "node-a", pod, namespace: "shop" }] as const;
}

const TUNNEL_OWNER = [TUNNEL_HANDLE, { node: "node-a", type: "ipipTunnelAddress" }] as const;

const world = fresh(() => new World());

describe("The upgrade from host-local", () => {
  it("makes the addresses of running pods theirs, and drops those of pods that are gone", async () => {
    await world.addPool();
    const [web = ""] = world.addPod("web");
    const [api = ""] = world.addPod("api");
    const [gone = ""] = addToHostLocal(world.network, "gone-container");
    expect(readdirSync(world.path).sort()).toEqual([web, api, gone, "last_reserved_ip.0", "lock"].sort());

    expect(await upgrade(world.ports())).toEqual({ moved: [web, api], dropped: [gone], contested: [] });

    expect(await world.held()).toEqual({ [TUNNEL]: TUNNEL_OWNER, [web]: podOwner("web"), [api]: podOwner("api") });
    expect(existsSync(world.path)).toBe(false);
    expect(world.deeds).toEqual([`tunnel ${TUNNEL}`, "not ready, 3 files", "plugins removed", "ready"]);
    expect(world.slept).toEqual([5000]);
  });

  it("moves both families of a pod", async () => {
    using world = new World(["10.65.0.0/24", "fd65::/64"]);
    await world.addPool();
    await world.addPool("fd65::/64");
    const [ipv4 = "", ipv6 = ""] = world.addPod("web");
    await upgrade(world.ports());
    expect(await world.held()).toEqual({ [TUNNEL]: TUNNEL_OWNER, [ipv4]: podOwner("web"), [ipv6]: podOwner("web") });
    expect((await world.store.handles.get(`${NETWORK}.web-container`))?.value.blocks).toEqual({ "10.65.0.0/26": 1, "fd65::/122": 1 });
  });

  it("has nothing to do without a directory, and only removes one that is empty", async () => {
    expect(await upgrade(world.ports())).toEqual({ moved: [], dropped: [], contested: [] });
    expect(world.deeds).toEqual([]);
    await world.addPool();
    world.addPod("web");
    for (const name of readdirSync(world.path)) rmSync(join(world.path, name));
    await upgrade(world.ports());
    expect(existsSync(world.path)).toBe(false);
    expect(world.deeds).toEqual([`tunnel ${TUNNEL}`]);
  });

  it.each([
    ["has a tunnel address already", { tunnelAddress: "10.65.9.9" }],
    ["has a pod CIDR of IPv6", { podCidr: "fd65::/64" }],
    ["has no pod CIDR", { podCidr: undefined }],
  ])("leaves the tunnel of a node alone that %s", async (_what, facts) => {
    await world.addPool();
    Object.assign(world, facts);
    const [web = ""] = world.addPod("web");
    await upgrade(world.ports());
    expect(await world.held()).toEqual({ [web]: podOwner("web") });
  });

  it("repeats writes of cluster objects on conflict, five times at most", async () => {
    await world.addPool();
    world.addPod("web");
    world.conflicts = 4;
    await upgrade(world.ports());
    expect([world.tunnelAddress, world.isReady]).toEqual([TUNNEL, true]);
    expect(world.slept).toEqual([1000, 1000, 1000, 1000, 5000]);

    world.addPod("api");
    world.tunnelAddress = undefined;
    world.conflicts = 5;
    await expect(upgrade(world.ports())).rejects.toThrow("update conflict");
  });

  it("says which address belongs to another by now, and goes on", async () => {
    await world.addPool();
    const [web = ""] = world.addPod("web");
    const [api = ""] = world.addPod("api");
    await world
      .allocator()
      .assignIp({ address: address(web), handle: "other", attributes: { node: "node-b" }, owner: { type: "host", name: "node-b" } });
    expect(await upgrade(world.ports())).toEqual({ moved: [api], dropped: [], contested: [web] });
    expect(world.logged).toContainEqual(
      `${web} is in use by handle ${NETWORK}.web-container, but the datastore says it belongs to handle other: remove one of them`,
    );
  });

  it.each([
    ["a file that host-local did not make", "notes.txt", "upgrade-directory"],
    ["a pod's address outside every pool", undefined, "address-outside-pools"],
  ])("stops no cluster for %s", async (_what, file, word) => {
    if (file !== undefined) await world.addPool();
    world.podCidr = undefined;
    world.addPod("web");
    if (file !== undefined) writeFileSync(join(world.path, file), "");
    await expect(upgrade(world.ports())).rejects.toMatchObject({ word });
    expect(world.deeds).toEqual([]);
    expect(readdirSync(world.path).length).toBeGreaterThan(2);
  });

  it("tries every second until it is done", async () => {
    const [web = ""] = world.addPod("web");
    world.podCidr = undefined;
    const sleep = async (milliseconds: number) => {
      world.slept.push(milliseconds);
      if (world.slept.length === 3) await world.addPool();
    };
    expect((await upgradeUntilDone(world.ports({ sleep }))).moved).toEqual([web]);
    expect(world.slept).toEqual([1000, 1000, 1000, 5000]);
  });

  it("L17: gives up in the end, loudly, and lets the cluster go on", async () => {
    await world.addPool();
    world.addPod("web");
    const failing = Object.assign(world.allocator(), { assignIp: () => Promise.reject(new Error("no quota left")) });
    world.tunnelAddress = "10.65.9.9";
    const upgrading = upgradeUntilDone(world.ports({ allocator: failing }), 0);
    await expect(upgrading).rejects.toMatchObject({ word: "upgrade-unfinished", message: expect.stringContaining("no quota left") });
    expect(world.deeds).toEqual(["not ready, 1 files", "plugins removed", "ready"]);
  });

  it("L17: gives up without touching the readiness of a cluster that it has not paused", async () => {
    world.addPod("web");
    await expect(upgradeUntilDone(world.ports(), 0)).rejects.toMatchObject({ word: "upgrade-unfinished" });
    expect(world.deeds).toEqual([]);
  });

  it("works without a cluster: containers keep what host-local says they have", async () => {
    await world.addPool();
    const [web = ""] = addToHostLocal(world.network, "c1");
    writeFileSync(join(world.path, "10.65.0.99"), "");
    const { cluster: _none, ...alone } = world.ports();
    expect(await upgrade(alone)).toEqual({ moved: [web], dropped: ["10.65.0.99"], contested: [] });
    expect(await world.held()).toEqual({ [web]: [`${NETWORK}.c1`, { node: "node-a", note: "moved from host-local" }] });
    expect(world.slept).toEqual([]);
  });
});

describe("host-local's lock", () => {
  it("keeps host-local waiting while the upgrade holds it", async () => {
    addToHostLocal(world.network, "c1");
    const held = openHostLocalDirectory(world.path).lock();
    const { command, input, env } = hostLocalCall(world.network, "ADD", "c2");
    const child = spawn(command, [], { env, stdio: ["pipe", "ignore", "ignore"] });
    const ended = once(child, "exit");
    child.stdin.end(input);
    await new Promise((done) => setTimeout(done, 300));
    expect(child.exitCode).toBeNull();
    expect(readdirSync(world.path)).not.toContain("10.65.0.3");
    held[Symbol.dispose]();
    expect(await ended).toEqual([0, null]);
    expect(readdirSync(world.path)).toContain("10.65.0.3");
  });
});

/** Dies at one call of the ports, before it is carried out or after. */
class Killer {
  readonly #at: number;
  readonly #isAfter: boolean;
  #calls = 0;

  constructor(at: number, isAfter: boolean) {
    this.#at = at;
    this.#isAfter = isAfter;
  }

  get wasAlive(): boolean {
    return this.#calls < this.#at;
  }

  ports(world: World): UpgradePorts {
    const whole = world.ports();
    return {
      ...whole,
      allocator: this.#mortal<UpgradePorts["allocator"]>(whole.allocator),
      directory: this.#mortal<HostLocalDirectory>(whole.directory),
      cluster: this.#mortal<UpgradeCluster>(world.cluster),
      sleep: async (milliseconds) => {
        this.#step();
        await whole.sleep(milliseconds);
      },
    };
  }

  /** The same object, whose calls count; the dead one's locks are given back, as the kernel does. */
  #mortal<T extends object>(port: T): T {
    return new Proxy(port, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name);
        if (typeof member !== "function") return member;
        return (...parameters: unknown[]): unknown => {
          const isFatal = this.#step();
          const result: unknown = Reflect.apply(member, target, parameters);
          if (!isFatal) return result;
          if (isDisposable(result)) result[Symbol.dispose]();
          if (result instanceof Promise) return result.then(() => this.#die());
          return this.#die();
        };
      },
    });
  }

  /** @returns whether to die after the call */
  #step(): boolean {
    this.#calls++;
    if (this.#calls !== this.#at) return false;
    if (!this.#isAfter) this.#die();
    return true;
  }

  #die(): never {
    throw new Error("killed");
  }
}

function isDisposable(value: unknown): value is Disposable {
  return typeof value === "object" && value !== null && Symbol.dispose in value;
}

describe("The upgrade, killed at any moment", () => {
  it("goes on when it is started again, and ends as if nothing had happened", async () => {
    using template = new World(["10.65.0.0/24", "fd65::/64"]);
    const addresses = ["web", "api"].map((pod) => ({ pod, addresses: template.addPod(pod) }));
    addToHostLocal(template.network, "gone-container");
    for (const isAfter of [false, true]) {
      for (let call = 1; ; call++) {
        using world = new World(template.network.cidrs);
        cpSync(template.path, world.path, { recursive: true });
        world.pods = template.pods;
        await world.addPool();
        await world.addPool("fd65::/64");
        const killer = new Killer(call, isAfter);
        await upgrade(killer.ports(world)).catch((error: unknown) => {
          if (!(error instanceof Error && error.message === "killed")) throw error;
        });
        const wasAlive = killer.wasAlive;
        await upgrade(world.ports());
        const owners = addresses.flatMap((pod) => pod.addresses.map((address) => [address, podOwner(pod.pod)] as const));
        expect({ call, isAfter, held: await world.held() }).toEqual({
          call,
          isAfter,
          held: { [TUNNEL]: TUNNEL_OWNER, ...Object.fromEntries(owners) },
        });
        expect({ call, isReady: world.isReady, tunnel: world.tunnelAddress }).toEqual({ call, isReady: true, tunnel: TUNNEL });
        expect(existsSync(world.path)).toBe(false);
        if (!wasAlive) continue;
        expect(call).toBeGreaterThan(30);
        break;
      }
    }
  });
});
