/** What the agent reads of a Node object. */
import { type Address, parseAddress } from "../../lib/addresses/address.ts";
import { type Fields, field, has, isText, listOf, objects, section, text, texts } from "../../lib/json/decode.ts";

export interface NodeFacts {
  readonly name: string;
  /** RFC 3339, dated by the API server. */
  readonly createdAt: string;
  /** As they are: the API server judges them, and an older one may not have. */
  readonly podCIDRs: readonly string[];
  readonly podCIDR: string;
  readonly annotations: Readonly<Record<string, string>>;
  /** `status.addresses` of types InternalIP and ExternalIP, internal ones first; bad ones are left out. */
  readonly addresses: readonly Address[];
}

/** @throws Error naming the field */
export function nodeFacts(object: Fields): NodeFacts {
  const metadata = section(object, "metadata");
  const spec = section(object, "spec");
  const addresses = objects(section(object, "status"), "addresses");
  const ofType = (type: string) =>
    addresses.filter((one) => text(one, "type") === type).flatMap((one) => parseAddress(text(one, "address")) ?? []);
  return {
    name: text(metadata, "name"),
    createdAt: text(metadata, "creationTimestamp"),
    podCIDRs: has(spec, "podCIDRs") ? field(spec, "podCIDRs", listOf(isText)) : [],
    podCIDR: text(spec, "podCIDR"),
    annotations: texts(metadata, "annotations"),
    addresses: [...ofType("InternalIP"), ...ofType("ExternalIP")],
  };
}
