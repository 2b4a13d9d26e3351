/** Addresses as the kernel writes them: the numbers of their families, and bytes in network order. */
import type { Address, Family } from "../../lib/addresses/address.ts";

/** include/linux/socket.h */
const AF_INET = 2;
const AF_INET6 = 10;

export function numberOf(family: Family): number {
  return family === 4 ? AF_INET : AF_INET6;
}

/** `undefined` for any other family than these two. */
export function familyOf(number: number): Family | undefined {
  return number === AF_INET ? 4 : number === AF_INET6 ? 6 : undefined;
}

export function addressOf(family: Family, octets: Uint8Array): Address {
  return { family, value: octets.reduce((value, octet) => (value << 8n) | BigInt(octet), 0n) };
}
