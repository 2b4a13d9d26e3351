/** Addresses that never are a workload's, whatever anybody says. */
import type { Prefix } from "./address.ts";

/** 169.254.0.0/16 and fe80::/10 (RFC 3927, RFC 4291): also those of a cloud's metadata, and of the gateway of Calico's pods. */
export const LINK_LOCAL: readonly Prefix[] = [
  { address: { family: 4, value: 0xa9fe_0000n }, length: 16 },
  { address: { family: 6, value: 0xfe80n << 112n }, length: 10 },
];

/** Besides: "this network", loopback, multicast (RFC 1122, RFC 5771, RFC 4291); ::/96 holds the loopback and unspecified address. */
export const NEVER_A_WORKLOAD: readonly Prefix[] = [
  ...LINK_LOCAL,
  { address: { family: 4, value: 0n }, length: 8 },
  { address: { family: 4, value: 127n << 24n }, length: 8 },
  { address: { family: 4, value: 224n << 24n }, length: 4 },
  { address: { family: 6, value: 0n }, length: 96 },
  { address: { family: 6, value: 0xff00n << 112n }, length: 8 },
];
