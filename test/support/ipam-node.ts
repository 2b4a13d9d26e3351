/** One node's IPAM plugin in this process, on a real local store in a directory of its own. */
import { join } from "node:path";
import { type AddOptions, type IpamAddition, ipamAdd } from "../../ipam-plugin/add.ts";
import { type IpamCall, resolveIpamCall } from "../../ipam-plugin/call.ts";
import { ipamCheck } from "../../ipam-plugin/check.ts";
import { ipamDel } from "../../ipam-plugin/del.ts";
import { ipamGc } from "../../ipam-plugin/gc.ts";
import { createIpamHost, type IpamHost as IpamPart } from "../../ipam-plugin/host.ts";
import { ipamStatus } from "../../ipam-plugin/status.ts";
import { addressAt, formatAddress, formatPrefix, parsePrefix } from "../../lib/addresses/address.ts";
import type { CniRequest } from "../../lib/cni/protocol.ts";
import type { NetworkConfig } from "../../lib/config/decode.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { type LocalDatastore, openLocalDatastore } from "../../lib/datastore/local/local-datastore.ts";
import type { JsonObject } from "../../lib/json/value.ts";
import { TemporaryDirectory } from "./fixtures.ts";

export interface Call {
  readonly container?: string;
  readonly args?: string;
  /** Keys over those of the node's network configuration. */
  readonly conf?: JsonObject;
  readonly ipam?: JsonObject;
  readonly ifname?: string;
}

export class IpamNode implements AsyncDisposable {
  readonly #temporary = new TemporaryDirectory();
  readonly directory = this.#temporary.path;
  readonly datastore: LocalDatastore;
  readonly ipam: IpamPart;
  /** What was logged. */
  readonly logged: string[] = [];
  readonly #conf: JsonObject;

  readonly #facts: Pick<Partial<IpamCall>, "nodeName" | "signal">;

  /**
   * @param conf keys over the defaults; `ipam` of a call goes over its `ipam`
   * @param facts of every call
   */
  constructor(conf: JsonObject = {}, parts: Partial<IpamPart> = {}, facts: Pick<Partial<IpamCall>, "nodeName" | "signal"> = {}) {
    this.datastore = openLocalDatastore(join(this.directory, "tortie.db"));
    this.#conf = conf;
    this.#facts = { nodeName: "node-a", ...facts };
    this.ipam = createIpamHost({ datastore: this.datastore, log: this.#log, ...parts });
  }

  get config(): NetworkConfig {
    return this.call("STATUS").config;
  }

  async add(call: Call = {}, options: AddOptions = {}): Promise<IpamAddition> {
    return ipamAdd(this.call("ADD", call), this.ipam, options);
  }

  /** The addresses of an ADD, as printed. */
  async addresses(call: Call = {}): Promise<readonly string[]> {
    return (await this.add(call)).addresses.map(formatPrefix);
  }

  async del(call: Call = {}): Promise<void> {
    await ipamDel(this.call("DEL", call), this.ipam);
  }

  async check(call: Call = {}): Promise<void> {
    await ipamCheck(this.call("CHECK", call), this.ipam);
  }

  async status(call: Call = {}): Promise<void> {
    await ipamStatus(this.call("STATUS", call), this.ipam);
  }

  /** @param unplugged containers whose links the main plugin has removed */
  async gc(call: Call = {}, unplugged?: readonly string[]): Promise<void> {
    await ipamGc({ ...this.call("GC", call), unplugged }, this.ipam);
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
    this.#temporary[Symbol.dispose]();
  }

  get #log(): IpamCall["log"] {
    const note = (message: string) => void this.logged.push(message);
    return { info: note, error: note, writeNow: (_level, message) => note(message) };
  }

  /** As the plugin's executable resolves it. */
  call(command: CniRequest["command"], { conf = {}, ipam, ...call }: Call = {}): IpamCall {
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
    return { ...resolvedCall(command, netconf, call, this.#log), ...this.#facts };
  }
}

/** A call with this configuration, as the plugin's executable resolves it. */
export function resolvedCall(
  command: CniRequest["command"],
  netconf: JsonObject,
  { container = "c1", args = "", ifname = "eth0" }: Pick<Call, "container" | "args" | "ifname">,
  log: IpamCall["log"],
): IpamCall {
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
  return resolveIpamCall(request, decodeNetworkConfig(netconf), {}, log);
}

function asObject(value: unknown): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {};
}
