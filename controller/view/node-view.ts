/** A node, as far as the first pools depend on it. */
import { type Address, parseAddress } from "../../lib/addresses/address.ts";
import { type Fields, field, has, isText, listOf, objects, section, text } from "../../lib/json/decode.ts";

export interface NodeView {
  /** `spec.podCIDRs`, which the cluster gives and the API server judges. */
  readonly ranges: readonly string[];
  /** `status.addresses`: what the node's kubelet says of itself. It can keep a pool from being made, and nothing else. */
  readonly addresses: readonly Address[];
}

/** @throws Error naming the field that is of the wrong type */
export function decodeNodeView(object: Fields): NodeView {
  const spec = section(object, "spec");
  return {
    ranges: has(spec, "podCIDRs") ? field(spec, "podCIDRs", listOf(isText)) : [],
    addresses: objects(section(object, "status"), "addresses").flatMap((entry) => parseAddress(text(entry, "address")) ?? []),
  };
}
