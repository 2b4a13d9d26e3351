/** Many calls of the main plugin in this process on one host, as whoever stays resident has them. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CniRequest } from "../../lib/cni/protocol.ts";
import { parseResult } from "../../lib/cni/result.ts";
import type { NetworkConfig } from "../../lib/config/decode.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { parseJson } from "../../lib/json/parse.ts";
import type { JsonObject } from "../../lib/json/value.ts";
import { createLogger } from "../../lib/log/logger.ts";
import { resolveNetworkCall } from "../../main-plugin/call.ts";
import { createHost, type Host, type HostParts } from "../../main-plugin/host.ts";
import { serve } from "../../main-plugin/serve.ts";

/** Sandboxes of this process's own network namespace, and a network configuration for all of them. */
export class OneProcess implements Disposable {
  readonly directory = mkdtempSync(join(tmpdir(), "tortie-one-process-"));
  readonly #netconf: JsonObject;
  readonly #config: NetworkConfig;
  readonly #argsOf: (index: number) => string;
  readonly #sandboxes: readonly string[];

  /** @param netconf without `ipam_lock_file`, which is this directory's */
  constructor(sandboxes: number, netconf: (directory: string) => JsonObject, argsOf: (index: number) => string = () => "") {
    // Our own executable under the IPAM plugin's name is served in this process.
    symlinkSync(process.execPath, join(this.directory, "calico-ipam"));
    this.#netconf = { ...netconf(this.directory), ipam_lock_file: join(this.directory, "ipam.lock") };
    this.#config = decodeNetworkConfig(this.#netconf);
    this.#argsOf = argsOf;
    this.#sandboxes = Array.from({ length: sandboxes }, (_, i) => `one-process-${process.pid}-${i}`);
    for (const name of this.#sandboxes) execFileSync("ip", ["netns", "add", name]);
  }

  /** @param parts what a resident process puts in the place of an executable's */
  host(parts: HostParts = {}): Host {
    return createHost(this.#config, {}, { error: () => {} }, parts);
  }

  /** @returns addresses with prefix length */
  async add(index: number, host: Host): Promise<readonly string[]> {
    const printed = await this.#call("ADD", index, host);
    return parseResult(parseJson(printed ?? ""), "1.0.0", "result").ips.map(({ address }) => address);
  }

  async del(index: number, host: Host): Promise<void> {
    await this.#call("DEL", index, host);
  }

  [Symbol.dispose](): void {
    for (const name of this.#sandboxes) execFileSync("ip", ["netns", "del", name]);
    rmSync(this.directory, { recursive: true });
  }

  #call(command: "ADD" | "DEL", index: number, host: Host): Promise<string | undefined> {
    const request: CniRequest = {
      command,
      containerId: `${index}c`.padStart(12, "0"),
      netns: `/run/netns/${this.#sandboxes[index]}`,
      interfaceName: "eth0",
      args: this.#argsOf(index),
      path: this.directory,
      netnsOverride: false,
      stdin: new TextEncoder().encode(JSON.stringify(this.#netconf)),
      netconf: this.#netconf,
      network: "net1",
      cniVersion: "1.0.0",
    };
    const log = createLogger({ ...this.#config.log, level: "error" }, request);
    return serve(resolveNetworkCall(request, this.#config, {}, log), host);
  }
}

/** Names of the host ends in this process's network namespace. */
export function hostEnds(): readonly string[] {
  const all: readonly { readonly ifname: string }[] = JSON.parse(execFileSync("ip", ["-j", "link", "show"], { encoding: "utf8" }));
  return all.map(({ ifname }) => ifname).filter((name) => name.startsWith("cali"));
}

/**
 * Open descriptors but for TCP connections, which the platform's fetch keeps for later, once they are the same for half a second: the
 * kernel keeps the thread of a deletion, with its descriptor, for a grace period.
 */
export async function descriptors(): Promise<number> {
  let seen = -1;
  for (let same = 0; same < 10; await Bun.sleep(50)) {
    const tcp = `${readFileSync("/proc/self/net/tcp", "utf8")}${readFileSync("/proc/self/net/tcp6", "utf8")}`;
    const inodes = new Set(tcp.split("\n").map((line) => line.trim().split(/\s+/)[9]));
    const now = readdirSync("/proc/self/fd").filter((fd) => !inodes.has(inodeOf(fd))).length;
    same = now === seen ? same + 1 : 0;
    seen = now;
  }
  return seen;
}

function inodeOf(fd: string): string | undefined {
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1];
  } catch {
    return undefined; // The descriptor of the listing itself.
  }
}
