/** Makes what the demo runs on: a node, two pods, and a host outside, each a network namespace. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { openDatastore } from "../../lib/datastore/open.ts";
import type { Block, Handle } from "../../lib/datastore/resources.ts";
import type { WorkloadEndpoint } from "../../lib/workload/endpoint.ts";
import { type JsonRecord, Node, type Pod, REFERENCE_PLUGINS_DIR, type RunResult } from "../../test/support/node.ts";
import { DemoFailure } from "./screen.ts";

/** Gives the link between node and outside addresses of documentation ranges (RFC 5737, RFC 3849). */
export const NODE4 = "192.0.2.1";
export const NODE6 = "2001:db8::1";
export const OUTSIDE4 = "192.0.2.2";
export const OUTSIDE6 = "2001:db8::2";

export const POOLS = ["10.244.0.0/16", "fd44:244::/48"];

const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

/** Describes an attached pod of the demo. */
export interface DemoPod {
  readonly name: string;
  readonly sandbox: Pod;
}

export class World implements AsyncDisposable {
  readonly node: Node;
  readonly web: DemoPod;
  readonly client: DemoPod;
  readonly outside: Pod;
  /** Holds the network configuration list that a runtime would read. */
  readonly conflist: Record<string, unknown>;
  readonly conflistFile: string;

  private constructor(node: Node, web: Pod, client: Pod, outside: Pod) {
    this.node = node;
    this.web = { name: "web", sandbox: web };
    this.client = { name: "client", sandbox: client };
    this.outside = outside;
    this.conflistFile = join(node.dir, "10-tortie.conflist");
    this.conflist = {
      cniVersion: "1.0.0",
      name: "pods",
      plugins: [
        {
          type: "tortie",
          datastore_type: "local",
          datastore_path: node.datastorePath,
          nodename: "demo-node",
          ipam: { type: "tortie-ipam", assign_ipv6: "true", pools: POOLS.map((cidr) => ({ cidr })) },
        },
        { type: "portmap", capabilities: { portMappings: true }, snat: true },
        { type: "bandwidth", capabilities: { bandwidth: true } },
      ],
    };
    writeFileSync(this.conflistFile, JSON.stringify(this.conflist));
  }

  static async create(): Promise<World> {
    const node = await Node.create();
    const outside = await node.addPod("outside");
    const world = new World(node, await node.addPod("web"), await node.addPod("client"), outside);
    await world.#connectOutside();
    return world;
  }

  /** Runs a command on the node, or in the given namespace, and returns its output. @throws DemoFailure if it fails */
  async run(argv: readonly string[], where?: Pod): Promise<string> {
    const result = await this.attempt(argv, where);
    if (result.exit === 0) return result.stdout;
    throw new DemoFailure(`${argv.join(" ")}: exit ${result.exit ?? result.signal}\n${result.stdout}${result.stderr}`);
  }

  async attempt(argv: readonly string[], where?: Pod): Promise<RunResult> {
    return this.node.run(argv, { env: { PATH, CNI_PATH: `${this.node.binDir}:${REFERENCE_PLUGINS_DIR}` }, timeoutMs: 30_000 }, where);
  }

  /** Parses `ip -j …`. */
  async ip(args: readonly string[], where?: Pod): Promise<JsonRecord[]> {
    const text = await this.run(["ip", "-j", ...args], where);
    return text.trim() === "" ? [] : JSON.parse(text);
  }

  /** Serves files (path → content; a name below cgi-bin/ is a script) over HTTP from a namespace, until the demo ends. */
  async serve(where: Pod, port: number, files: Readonly<Record<string, string>>): Promise<void> {
    const root = join(this.node.dir, `www-${where.name}`);
    mkdirSync(join(root, "cgi-bin"), { recursive: true });
    for (const [name, content] of Object.entries(files)) writeFileSync(join(root, name), content, { mode: 0o755 });
    await this.run(["busybox", "httpd", "-p", `[::]:${port}`, "-h", root], where);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]();
  }

  async #connectOutside(): Promise<void> {
    await this.run(["ip", "link", "add", "uplink", "type", "veth", "peer", "name", "eth0", "netns", this.outside.name]);
    const ends = [
      ["uplink", NODE4, NODE6, undefined],
      ["eth0", OUTSIDE4, OUTSIDE6, this.outside],
    ] as const;
    for (const [link, address4, address6, where] of ends) {
      await this.run(["ip", "addr", "add", `${address4}/24`, "dev", link], where);
      await this.run(["ip", "addr", "add", `${address6}/64`, "dev", link, "nodad"], where);
      await this.run(["ip", "link", "set", link, "up"], where);
    }
    // Adds a default route: proxy ARP answers only for what the node can reach by another link (net/ipv4/arp.c, arp_process).
    await this.run(["ip", "route", "add", "default", "via", OUTSIDE4]);
    await this.run(["ip", "route", "add", "default", "via", OUTSIDE6]);
  }
}

export interface DemoStore {
  readonly blocks: readonly Block[];
  readonly handles: readonly Handle[];
  readonly endpoints: readonly WorkloadEndpoint[];
}

export async function readDemoStore(world: World): Promise<DemoStore> {
  const config = decodeNetworkConfig({ name: "pods", datastore_type: "local", datastore_path: world.node.datastorePath });
  await using store = await openDatastore(config, {});
  const [blocks, handles, endpoints] = [await store.blocks.list(), await store.handles.list(), await store.endpoints.list()];
  return {
    blocks: blocks.map(({ value }) => value),
    handles: handles.map(({ value }) => value),
    endpoints: endpoints.map(({ value }) => value),
  };
}
