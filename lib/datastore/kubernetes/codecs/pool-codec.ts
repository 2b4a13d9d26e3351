/** IPPool (I§2.7), with the defaults that hold where a field is absent or empty. */

import { formatPrefix, maskPrefix, parsePrefix } from "../../../addresses/address.ts";
import { type Fields, field, flag, has, isNumber, isText, listOf, objects, text } from "../../../json/decode.ts";
import type { IPPool } from "../../resources.ts";
import { nameOfObject } from "../names.ts";
import { type Codec, named, type Resource, type Spec } from "./codec.ts";

export const poolCodec: Codec<string, IPPool> = {
  ...named("IPPool", "ippools"),
  members: new Set(["allowedUses", "assignmentMode", "blockSize", "cidr", "disabled", "namespaceSelector", "natOutgoing", "nodeSelector"]),
  nameOf: nameOfObject,
  decode,
  encode,
  oddityOf: ({ assignmentMode: word }) =>
    word === "Automatic" || word === "Manual" ? undefined : `assignmentMode "${word}" is not known, and counts as Manual`,
  initial: { ipipMode: "Never", vxlanMode: "Never" },
};

const DEFAULT_USES = ["Workload", "Tunnel"];
const isTexts = listOf(isText);

function decode({ metadata, spec, status }: Resource): IPPool {
  const cidr = canonical(text(spec, "cidr"));
  const allowedUses = has(spec, "allowedUses") ? field(spec, "allowedUses", isTexts) : [];
  const blockSize = has(spec, "blockSize") ? field(spec, "blockSize", isNumber) : 0;
  const allocatable = condition(status, "Allocatable");
  return {
    name: metadata.name,
    cidr,
    blockSize: blockSize || (cidr.includes(":") ? 122 : 26),
    disabled: flag(spec, "disabled"),
    nodeSelector: text(spec, "nodeSelector") || "all()",
    namespaceSelector: text(spec, "namespaceSelector"),
    allowedUses: allowedUses.length === 0 ? DEFAULT_USES : allowedUses,
    assignmentMode: text(spec, "assignmentMode") || "Automatic",
    natOutgoing: flag(spec, "natOutgoing"),
    deleting: metadata.isDeleting,
    ...(allocatable === undefined ? {} : { allocatable }),
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
