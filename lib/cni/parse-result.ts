/** The result of an ADD, in any version of the specification, to the form of 1.1.0 that Tortie works with (C§5.2, "Up-conversion"). */
import { formatAddress, formatPrefix, parseAddress, parsePrefix } from "../addresses/address.ts";
import type { JsonValue } from "../json/value.ts";
import type { CniDns, CniInterface, CniIp, CniResult, CniRoute, CniVersion } from "./protocol.ts";
import { ResultFields } from "./result-fields.ts";
import { ABSENT_VERSION, isAtLeast, isCniVersion } from "./version.ts";

/**
 * Reads a result. Addresses come back in canonical text, host bits kept; unknown keys are left out.
 *
 * @param configVersion the version of a result that names none is that of the network configuration (recording delegate-no-version)
 * @param what what is read, for messages: "CNI result", "prevResult"
 * @throws TortieError `result-invalid`, naming the path and the value
 */
export function parseResult(json: JsonValue, configVersion: CniVersion | undefined, what = "CNI result"): CniResult {
  const fields = new ResultFields(json, what, ": ");
  const version = fields.string("cniVersion") ?? configVersion ?? ABSENT_VERSION;
  if (!isCniVersion(version)) throw fields.refusal(`unsupported CNI result version ${JSON.stringify(version)}`);
  return isAtLeast(version, "0.3.0") ? parseListForm(fields) : parseFamilyForm(fields);
}

/** 0.3.0 and newer. `ips[].version` of 0.x says nothing that the address does not say. */
function parseListForm(fields: ResultFields): CniResult {
  return {
    interfaces: fields.objects("interfaces").map(parseInterface),
    ips: fields.objects("ips").map((ip) => parseIp(ip, "address")),
    routes: fields.objects("routes").map(parseRoute),
    dns: parseDns(fields.object("dns")),
  };
}

/** 0.1.0 and 0.2.0: one address a family, routes below it. */
function parseFamilyForm(fields: ResultFields): CniResult {
  const families = [fields.object("ip4"), fields.object("ip6")].filter((family) => family !== undefined);
  return {
    interfaces: [],
    ips: families.map((family) => parseIp(family, "ip")),
    routes: families.flatMap((family) => family.objects("routes").map(parseRoute)),
    dns: parseDns(fields.object("dns")),
  };
}

function parseInterface(fields: ResultFields): CniInterface {
  const name = fields.string("name") ?? "";
  const [mac, mtu, sandbox] = [fields.string("mac"), fields.integer("mtu"), fields.string("sandbox")];
  const [socketPath, pciID] = [fields.string("socketPath"), fields.string("pciID")];
  return {
    name,
    ...(mac !== undefined && { mac }),
    ...(mtu !== undefined && { mtu }),
    ...(sandbox !== undefined && { sandbox }),
    ...(socketPath !== undefined && { socketPath }),
    ...(pciID !== undefined && { pciID }),
  };
}

function parseIp(fields: ResultFields, addressKey: "address" | "ip"): CniIp {
  const gateway = addressOf(fields, "gateway");
  const index = fields.integer("interface");
  return {
    address: prefixOf(fields, addressKey),
    ...(gateway !== undefined && { gateway }),
    ...(index !== undefined && { interface: index }),
  };
}

function parseRoute(fields: ResultFields): CniRoute {
  const gw = addressOf(fields, "gw");
  const [mtu, advmss, priority] = [fields.integer("mtu"), fields.integer("advmss"), fields.integer("priority")];
  const [table, scope] = [fields.integer("table"), fields.integer("scope")];
  return {
    dst: prefixOf(fields, "dst"),
    ...(gw !== undefined && { gw }),
    ...(mtu !== undefined && { mtu }),
    ...(advmss !== undefined && { advmss }),
    ...(priority !== undefined && { priority }),
    ...(table !== undefined && { table }),
    ...(scope !== undefined && { scope }),
  };
}

function parseDns(fields: ResultFields | undefined): CniDns {
  if (fields === undefined) return {};
  const [nameservers, search, options] = [fields.strings("nameservers"), fields.strings("search"), fields.strings("options")];
  const domain = fields.string("domain");
  return {
    ...(nameservers.length > 0 && { nameservers }),
    ...(domain !== undefined && { domain }),
    ...(search.length > 0 && { search }),
    ...(options.length > 0 && { options }),
  };
}

function prefixOf(fields: ResultFields, key: string): string {
  const text = fields.string(key);
  if (text === undefined) throw fields.refusal("missing", key);
  const prefix = parsePrefix(text);
  if (prefix === undefined) throw fields.refusal(`invalid CIDR address: ${text}`, key);
  return formatPrefix(prefix);
}

function addressOf(fields: ResultFields, key: string): string | undefined {
  const text = fields.string(key);
  if (text === undefined) return undefined;
  const address = parseAddress(text);
  if (address === undefined) throw fields.refusal(`invalid IP address: ${text}`, key);
  return formatAddress(address);
}
