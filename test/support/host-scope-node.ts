/** `node.json` of a pretend machine, as the agent leaves it for plugins that work without it. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { hostScopeFiles } from "../../ipam-plugin/host-scope/files.ts";
import { encodeNodeRecord, type NodeRecord } from "../../ipam-plugin/host-scope/node-record.ts";
import { prefix } from "./addresses.ts";

export interface NodeRecordOptions extends Partial<Omit<NodeRecord, "ipv4" | "ipv6">> {
  readonly ipv4?: string;
  readonly ipv6?: string;
}

/** @returns the path of the record */
export function writeNodeRecordFor(runDirectory: string, { ipv4, ipv6, ...rest }: NodeRecordOptions): string {
  const { nodeRecord } = hostScopeFiles(runDirectory);
  const record: NodeRecord = {
    node: "node1",
    bootId: readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(),
    exclusions: [],
    strategy: "contiguous",
    cooldownMs: 30_000,
    ...(ipv4 === undefined ? {} : { ipv4: { cidr: prefix(ipv4), source: "spec" } }),
    ...(ipv6 === undefined ? {} : { ipv6: { cidr: prefix(ipv6), source: "spec" } }),
    ...rest,
  };
  mkdirSync(`${runDirectory}/state`, { recursive: true, mode: 0o700 });
  writeFileSync(nodeRecord, encodeNodeRecord(record));
  return nodeRecord;
}
