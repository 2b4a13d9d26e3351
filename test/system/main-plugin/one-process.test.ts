/** Many calls at once in one process on one Node, as whoever stays resident will have them: real namespaces, kernel and local store. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CniRequest, CniResult } from "../../../lib/cni/protocol.ts";
import { parseResult } from "../../../lib/cni/result.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { parseJson } from "../../../lib/json/parse.ts";
import type { JsonObject } from "../../../lib/json/value.ts";
import { createLogger } from "../../../lib/log/logger.ts";
import { resolveNetworkCall } from "../../../main-plugin/call.ts";
import { createNode, type Node } from "../../../main-plugin/node.ts";
import { serve } from "../../../main-plugin/serve.ts";

const CALLS = 200;

const directory = mkdtempSync(join(tmpdir(), "tortie-one-process-"));
const sandboxes = Array.from({ length: 2 * CALLS }, (_, i) => `one-process-${i}`);

const netconf: JsonObject = {
  cniVersion: "1.0.0",
  name: "net1",
  type: "calico",
  log_file_path: join(directory, "cni.log"),
  datastore_type: "local",
  datastore_path: join(directory, "tortie.db"),
  ipam_lock_file: join(directory, "ipam.lock"),
  nodename: "node-a",
  ipam: { type: "calico-ipam", pools: [{ cidr: "10.66.0.0/22" }, { cidr: "fd66::/112" }], assign_ipv6: "true" },
};
const config = decodeNetworkConfig(netconf);

beforeAll(() => {
  // Our own executable under the IPAM plugin's name is served in this process.
  symlinkSync(process.execPath, join(directory, "calico-ipam"));
  for (const name of sandboxes) execFileSync("ip", ["netns", "add", name]);
});
afterAll(() => {
  for (const name of sandboxes) execFileSync("ip", ["netns", "del", name]);
  rmSync(directory, { recursive: true });
});

function call(command: "ADD" | "DEL", index: number, node: Node): Promise<string | undefined> {
  const request: CniRequest = {
    command,
    containerId: `${index}c`.padStart(12, "0"),
    netns: `/run/netns/${sandboxes[index]}`,
    interfaceName: "eth0",
    args: "",
    path: directory,
    netnsOverride: false,
    stdin: new TextEncoder().encode(JSON.stringify(netconf)),
    netconf,
    network: "net1",
    cniVersion: "1.0.0",
  };
  return serve(resolveNetworkCall(request, config, {}, createLogger({ ...config.log, level: "error" }, request)), node);
}

async function add(index: number, node: Node): Promise<CniResult> {
  return parseResult(parseJson((await call("ADD", index, node)) ?? ""), "1.0.0", "result");
}

const firstHalf = Array.from({ length: CALLS }, (_, i) => i);
const secondHalf = Array.from({ length: CALLS }, (_, i) => CALLS + i);

function addressesOf(results: readonly CniResult[]): readonly string[] {
  return results.flatMap(({ ips }) => ips.map(({ address }) => address));
}

function links(): readonly string[] {
  const all: readonly { readonly ifname: string }[] = JSON.parse(execFileSync("ip", ["-j", "link", "show"], { encoding: "utf8" }));
  return all.map(({ ifname }) => ifname).filter((name) => name.startsWith("cali"));
}

/** Once they are the same for half a second: the kernel keeps the thread of a deletion, with its descriptor, for a grace period. */
async function descriptors(): Promise<number> {
  let seen = -1;
  for (let same = 0; same < 10; await Bun.sleep(50)) {
    const now = readdirSync("/proc/self/fd").length;
    same = now === seen ? same + 1 : 0;
    seen = now;
  }
  return seen;
}

describe(`${CALLS} calls at once in one process`, () => {
  it("get an address each, take it back, and leave nothing behind", async () => {
    // What is opened once and stays: the thread pool, the netlink machinery, the loaded driver.
    {
      await using warm = createNode(config, {}, { error: () => {} });
      await add(0, warm);
      await call("DEL", 0, warm);
    }
    const before = await descriptors();
    {
      await using node = createNode(config, {}, { error: () => {} });
      const first = await Promise.all(firstHalf.map((index) => add(index, node)));
      expect(new Set(addressesOf(first)).size).toBe(2 * CALLS);
      expect(links()).toHaveLength(CALLS);

      // The first half goes while the second half comes.
      const [second] = await Promise.all([
        Promise.all(secondHalf.map((index) => add(index, node))),
        Promise.all(firstHalf.map((index) => call("DEL", index, node))),
      ]);
      expect(new Set(addressesOf(second)).size).toBe(2 * CALLS);
      expect(links()).toHaveLength(CALLS);

      await Promise.all(secondHalf.map((index) => call("DEL", index, node)));

      const store = await node.datastore();
      expect(links()).toEqual([]);
      expect(await store.endpoints.list()).toEqual([]);
      expect(await store.handles.list()).toEqual([]);
      const held = (await store.blocks.list()).flatMap(({ value }) =>
        value.attributes.filter(({ releasedAt }) => releasedAt === undefined),
      );
      expect(held).toEqual([]);
    }
    expect(await descriptors()).toBe(before);
  });
});
