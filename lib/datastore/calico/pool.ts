/** IPPool (I§2.7), with the defaults that hold where a field is absent or empty. */

import { formatPrefix, maskPrefix, parsePrefix } from "../../addresses/address.ts";
import { type Fields, flag, number, objects, type Readers, readAll, text, textList } from "../../json/decode.ts";
import type { IPPool } from "../resources.ts";
import { type Codec, named, nameOfObject, type Resource, type Spec } from "./codec.ts";

const DEFAULT_USES = ["Workload", "Tunnel"];

const SPEC: Readers<Omit<IPPool, "name" | "deleting" | "allocatable">> = {
  cidr: text,
  blockSize: number,
  disabled: flag,
  nodeSelector: text,
  namespaceSelector: text,
  allowedUses: textList,
  assignmentMode: text,
  natOutgoing: flag,
};

export const poolCodec: Codec<string, IPPool> = {
  ...named("IPPool", "ippools"),
  members: new Set(Object.keys(SPEC)),
  nameOf: nameOfObject,
  decode,
  encode,
  oddityOf: ({ assignmentMode: word }) =>
    word === "Automatic" || word === "Manual" ? undefined : `assignmentMode "${word}" is not known, and counts as Manual`,
  initial: { ipipMode: "Never", vxlanMode: "Never" },
};

function decode({ metadata, spec, status }: Resource): IPPool {
  const stored = readAll(SPEC, spec);
  const cidr = canonical(stored.cidr);
  return {
    name: metadata.name,
    ...stored,
    cidr,
    blockSize: stored.blockSize || (cidr.includes(":") ? 122 : 26),
    nodeSelector: stored.nodeSelector || "all()",
    allowedUses: stored.allowedUses.length === 0 ? DEFAULT_USES : stored.allowedUses,
    assignmentMode: stored.assignmentMode || "Automatic",
    deleting: metadata.isDeleting,
    allocatable: condition(status, "Allocatable"),
  };
}

/** An invalid CIDR stays as it is: the allocator skips the pool, and lists show it. */
function canonical(cidr: string): string {
  const prefix = parsePrefix(cidr);
  return prefix === undefined ? cidr : formatPrefix(maskPrefix(prefix));
}

function condition(status: Fields, type: string): boolean | undefined {
  const found = objects(status, "conditions").find((entry) => text(entry, "type") === type);
  const value = found === undefined ? "Unknown" : text(found, "status");
  return value === "True" || value === "False" ? value === "True" : undefined;
}

function encode(pool: IPPool): Spec {
  return {
    allowedUses: pool.allowedUses,
    assignmentMode: pool.assignmentMode,
    blockSize: pool.blockSize,
    cidr: pool.cidr,
    disabled: pool.disabled,
    namespaceSelector: pool.namespaceSelector || undefined,
    natOutgoing: pool.natOutgoing,
    nodeSelector: pool.nodeSelector,
  };
}
