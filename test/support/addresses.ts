/** Addresses and prefixes from the text that a test writes. Text that is neither is a mistake of the test. */
import { type Address, type Prefix, parseAddress, parsePrefix } from "../../lib/addresses/address.ts";

export function address(text: string): Address {
  const parsed = parseAddress(text);
  if (parsed === undefined) throw new Error(`"${text}" is no address`);
  return parsed;
}

export function prefix(text: string): Prefix {
  const parsed = parsePrefix(text);
  if (parsed === undefined) throw new Error(`"${text}" is no prefix`);
  return parsed;
}
