/** One node's IPAM plugin in this process, on a real local store in a directory of its own. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AddOptions, type IpamAddition, ipamAdd, ipamCheck, ipamDel, ipamGc, ipamStatus } from "../../ipam-plugin/ipam-plugin.ts";
import { createIpamServices, type IpamServices } from "../../ipam-plugin/services.ts";
import { addressAt, formatAddress, formatPrefix, parsePrefix } from "../../lib/addresses/address.ts";
import type { CniRequest } from "../../lib/cni/protocol.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import type { NetworkConfig } from "../../lib/config/network-config.ts";
import { type LocalDatastore, openLocalDatastore } from "../../lib/datastore/local/local-datastore.ts";
import type { JsonObject } from "../../lib/json/value.ts";

export interface Call {
  readonly container?: string;
  readonly args?: string;
  /** Keys over those of the node's network configuration. */
  readonly conf?: JsonObject;
  readonly ipam?: JsonObject;
  readonly ifname?: string;
}

export class IpamNode implements AsyncDisposable {
  readonly directory: string;
  readonly datastore: LocalDatastore;
  readonly services: IpamServices;
  /** What was logged. */
  readonly logged: string[] = [];
  readonly #conf: JsonObject;

  /** @param conf keys over the defaults; `ipam` of a call goes over its `ipam` */
  constructor(conf: JsonObject = {}, services: Partial<IpamServices> = {}) {
    this.directory = mkdtempSync(join(tmpdir(), "tortie-ipam-"));
    this.datastore = openLocalDatastore(join(this.directory, "tortie.db"));
    this.#conf = conf;
    const note = (message: string) => void this.logged.push(message);
    const log = { info: note, error: note, writeNow: (_level: unknown, message: string) => note(message) };
    this.services = createIpamServices({ datastore: this.datastore, node: "node-a", env: {}, log, ...services });
  }

  get config(): NetworkConfig {
    return this.#call("STATUS", {})[1];
  }

  get request(): CniRequest {
    return this.#call("ADD", {})[0];
  }

  async add(call: Call = {}, options: AddOptions = {}): Promise<IpamAddition> {
    return ipamAdd(...this.#call("ADD", call), this.services, options);
  }

  /** The addresses of an ADD, as printed. */
  async addresses(call: Call = {}): Promise<readonly string[]> {
    return (await this.add(call)).addresses.map(formatPrefix);
  }

  async del(call: Call = {}): Promise<void> {
    await ipamDel(...this.#call("DEL", call), this.services);
  }

  async check(call: Call = {}): Promise<void> {
    await ipamCheck(...this.#call("CHECK", call), this.services);
  }

  async status(call: Call = {}): Promise<void> {
    await ipamStatus(...this.#call("STATUS", call), this.services);
  }

  async gc(call: Call = {}): Promise<void> {
    await ipamGc(...this.#call("GC", call), this.services);
  }

  /** Addresses by the handle that holds them, cooldown left out. */
  async allocated(): Promise<Record<string, string[]>> {
    const held: Record<string, string[]> = {};
    for (const { value: block } of await this.datastore.blocks.list()) {
      const prefix = parsePrefix(block.cidr);
      if (prefix === undefined) throw new Error(`block ${block.cidr} has no CIDR`);
      for (const [ordinal, index] of block.allocations.entries()) {
        const handle = index === null ? undefined : block.attributes[index]?.handleId;
        if (handle === undefined) continue;
        held[handle] ??= [];
        held[handle].push(formatAddress(addressAt(prefix, ordinal)));
      }
    }
    return held;
  }

  async handles(): Promise<readonly string[]> {
    return (await this.datastore.handles.list()).map(({ value }) => value.id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.datastore[Symbol.asyncDispose]();
    rmSync(this.directory, { recursive: true, force: true });
  }

  #call(
    command: CniRequest["command"],
    { container = "c1", args = "", conf = {}, ipam, ifname = "eth0" }: Call,
  ): [CniRequest, NetworkConfig] {
    const netconf: JsonObject = {
      cniVersion: "1.0.0",
      name: "net1",
      type: "tortie",
      datastore_type: "local",
      ipam_lock_file: join(this.directory, "ipam.lock"),
      ...this.#conf,
      ...conf,
      ipam: { type: "tortie-ipam", ...asObject(this.#conf.ipam), ...ipam },
    };
    const request: CniRequest = {
      command,
      containerId: command === "STATUS" || command === "GC" ? "" : container,
      netns: "/run/netns/x",
      interfaceName: ifname,
      args,
      path: "/opt/cni/bin",
      netnsOverride: false,
      stdin: new TextEncoder().encode(JSON.stringify(netconf)),
      netconf,
      network: String(netconf.name),
      cniVersion: "1.0.0",
    };
    return [request, decodeNetworkConfig(netconf)];
  }
}

function asObject(value: unknown): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {};
}
