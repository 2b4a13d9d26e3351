/** Addresses of the node's range over the API (A§2.4, A§2.5). */
import { AddressPair } from "./endpoint-models.ts";
import { model, ref, type Static, Type, words } from "./model.ts";
import { NodeAddressing } from "./models.ts";

const IpamAddress = model("IPAMAddressResponse", "One granted address.", {
  ip: Type.String(),
  gateway: Type.Optional(Type.String()),
  "expiration-uuid": Type.Optional(Type.String({ description: "The grant's token, while it is not an endpoint's" })),
  token: Type.String({ description: "Proves the grant when it is released" }),
  cidrs: Type.Optional(Type.Array(Type.String())),
});

export const IpamResponse = model("IPAMResponse", "Granted addresses.", {
  address: ref(AddressPair),
  "host-addressing": ref(NodeAddressing),
  ipv4: Type.Optional(ref(IpamAddress)),
  ipv6: Type.Optional(ref(IpamAddress)),
});
export type IpamResponse = Static<typeof IpamResponse>;

const IpamGrant = model("IPAMGrant", "Who has an address.", {
  address: Type.String(),
  owner: Type.String(),
  endpoint: Type.Optional(Type.Integer()),
  pod: Type.Optional(Type.String()),
  "granted-at": Type.String(),
  "expires-at": Type.Optional(Type.String()),
});

const IpamRange = model("IPAMRange", "One range of this node (A§4.6).", {
  family: words("ipv4", "ipv6"),
  cidr: Type.String(),
  size: Type.Integer(),
  used: Type.Integer(),
  free: Type.Integer(),
  cooling: Type.Integer(),
  excluded: Type.Integer(),
  foreign: Type.Integer(),
  grants: Type.Array(ref(IpamGrant)),
});

export const IpamStatus = model("IPAMStatus", "The ranges of this node and every grant.", {
  status: Type.String(),
  allocations: Type.Record(Type.String(), Type.String(), { description: "Address to owner" }),
  ranges: Type.Array(ref(IpamRange)),
});
export type IpamStatus = Static<typeof IpamStatus>;
