/** Addresses and prefixes inside larger values, as text. */
import { type Address, formatAddress, formatPrefix, type Prefix } from "../../lib/addresses/address.ts";

/** The replacer for JSON.stringify: an address is printed as "10.0.0.5", a prefix as "10.0.0.5/32". */
export function addressesAsText(_key: string, value: unknown): unknown {
  return isAddress(value) ? formatAddress(value) : isPrefix(value) ? formatPrefix(value) : value;
}

function isAddress(value: unknown): value is Address {
  return isObject(value) && "family" in value && "value" in value && typeof value.value === "bigint";
}

function isPrefix(value: unknown): value is Prefix {
  return isObject(value) && "address" in value && "length" in value && isAddress(value.address);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
