/** Describes the operations on addresses of the node's range (A§2.4, A§2.5). */
import { AddressPair } from "./endpoint-schema.ts";
import { NodeAddressing } from "./node.ts";
import { model, type Operations, ref, type Static, Type, words } from "./operation.ts";

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

const ADDRESS = Type.Object({ ip: Type.String({ minLength: 1, description: "An address" }) });
const OWNER = Type.String({ minLength: 1, maxLength: 512, pattern: "^[^\\u0000-\\u001f]+$", description: "Who shall have it" });

export const IPAM_OPERATIONS = {
  getIpam: { method: "GET", path: "/ipam", summary: "The ranges of this node and every grant", answers: { 200: ref(IpamStatus) } },
  postIpam: {
    method: "POST",
    path: "/ipam",
    summary: "Grants one address of each family asked for: both or none",
    query: Type.Object({ family: Type.Optional(words("ipv4", "ipv6")), owner: OWNER }),
    headers: Type.Object({
      expiration: Type.Optional(Type.String({ description: "true: released after 10 minutes unless an endpoint has it" })),
    }),
    answers: { 201: ref(IpamResponse) },
  },
  postIpamAddress: {
    method: "POST",
    path: "/ipam/{ip}",
    summary: "Grants this address",
    params: ADDRESS,
    query: Type.Object({ owner: OWNER }),
    answers: { 200: ref(IpamResponse) },
  },
  deleteIpamAddress: {
    method: "DELETE",
    path: "/ipam/{ip}",
    summary: "Releases a grant of this owner, or of this token",
    params: ADDRESS,
    query: Type.Object({
      owner: Type.Optional(OWNER),
      token: Type.Optional(Type.String()),
      idempotent: Type.Optional(Type.Boolean({ description: "An address that is not granted is as good as released" })),
    }),
    answers: { 200: null },
  },
} as const satisfies Operations;
