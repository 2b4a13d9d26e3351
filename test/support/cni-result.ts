/** What tests read of the result of an ADD, as a plugin or an agent has answered it. */

interface Result {
  readonly ips?: readonly { readonly address: string }[];
  readonly interfaces?: readonly { readonly name: string; readonly sandbox?: string }[];
}

/** Its addresses with their lengths; none of what is no result. */
export function prefixesOf(result: unknown): string[] {
  return (partsOf(result).ips ?? []).map(({ address }) => address);
}

/** Its addresses without their lengths. */
export function addressesOf(result: unknown): string[] {
  return prefixesOf(result).map((prefix) => prefix.replace(/\/.*/, ""));
}

/** Name of the interface on the host; empty where there is none. */
export function hostEndOf(result: unknown): string {
  return partsOf(result).interfaces?.find(({ sandbox = "" }) => sandbox === "")?.name ?? "";
}

function partsOf(result: unknown): Result {
  return typeof result === "object" && result !== null ? result : {};
}
