/**
 * Whether a certificate is one for the server that was meant: by its subject alternative names only (RFC 9525, 6). The runtime's own
 * check falls back to the Common Name, which Go, and with it kubectl, has ignored since 1.15; and it is loaded with all of node:tls.
 */
import { parseAddress } from "../../addresses/address.ts";

/** @param names as the runtime writes them: `DNS:a.example, IP Address:10.0.0.1`; a value with a comma or a quote in it is in quotes */
export function isNamed(wanted: string, names: string): boolean {
  const address = parseAddress(wanted);
  return names.split(", ").some((entry) => {
    const colon = entry.indexOf(":");
    const [kind, value] = [entry.slice(0, colon), entry.slice(colon + 1)];
    if (address === undefined) return kind === "DNS" && matchesHost(wanted.toLowerCase(), value.toLowerCase());
    const listed = kind === "IP Address" ? parseAddress(value.toLowerCase()) : undefined;
    return listed !== undefined && listed.family === address.family && listed.value === address.value;
  });
}

/** A "*" stands for the whole first label, and for no more than it. */
function matchesHost(host: string, pattern: string): boolean {
  const name = host.endsWith(".") ? host.slice(0, -1) : host;
  if (!pattern.startsWith("*.")) return pattern === name && name !== "";
  const dot = name.indexOf(".");
  return dot > 0 && name.slice(dot) === pattern.slice(1) && pattern.indexOf(".", 2) > 0;
}
