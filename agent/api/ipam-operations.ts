/** Addresses of this node's range (A§2.5). */
import { IpamResponse, IpamStatus } from "./ipam-models.ts";
import { ref, Type, words } from "./model.ts";
import type { Operation } from "./operation.ts";

const ADDRESS = Type.Object({ ip: Type.String({ minLength: 1, description: "An address" }) });
const OWNER = Type.String({ minLength: 1, maxLength: 512, pattern: "^[^\\u0000-\\u001f]+$", description: "Who shall have it" });

export const IPAM_OPERATIONS = {
  getIpam: {
    method: "GET",
    path: "/ipam",
    summary: "The ranges of this node and every grant",
    tag: "ipam",
    answers: { 200: ref(IpamStatus) },
    isRead: true,
  },
  postIpam: {
    method: "POST",
    path: "/ipam",
    summary: "Grants one address of each family asked for: both or none",
    tag: "ipam",
    query: Type.Object({ family: Type.Optional(words("ipv4", "ipv6")), owner: OWNER }),
    headers: Type.Object({
      expiration: Type.Optional(Type.String({ description: "true: released after 10 minutes unless an endpoint has it" })),
    }),
    answers: { 201: ref(IpamResponse) },
    isRead: false,
  },
  postIpamAddress: {
    method: "POST",
    path: "/ipam/{ip}",
    summary: "Grants this address",
    tag: "ipam",
    params: ADDRESS,
    query: Type.Object({ owner: OWNER }),
    answers: { 200: ref(IpamResponse) },
    isRead: false,
  },
  deleteIpamAddress: {
    method: "DELETE",
    path: "/ipam/{ip}",
    summary: "Releases a grant of this owner, or of this token",
    tag: "ipam",
    params: ADDRESS,
    query: Type.Object({
      owner: Type.Optional(OWNER),
      token: Type.Optional(Type.String()),
      idempotent: Type.Optional(Type.Boolean({ description: "An address that is not granted is as good as released" })),
    }),
    answers: { 200: null },
    isRead: false,
  },
} as const satisfies Readonly<Record<string, Operation>>;
