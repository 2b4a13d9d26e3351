/**
 * Results of ADD. `parseResult` reads any version into the form of 1.1.0 (protocol.ts); `renderResult` prints any version byte for
 * byte as Calico's plugins do (C§5.2, recordings version-*, dual-*, auto-*): four spaces of indentation, no newline at the end, keys
 * in alphabetical order from 1.0.0 on and in the order of the older specifications before.
 */
import { formatAddress, formatPrefix, parseAddress, parsePrefix } from "../addresses/address.ts";
import { TortieError } from "../errors/errors.ts";
import { stringifyJson, type Writable } from "../json/stringify.ts";
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

type Shape = { readonly [key: string]: Writable | undefined };

/**
 * @throws TortieError `result-invalid` when the version cannot hold the result: 0.1.0 and 0.2.0 need an address
 */
export function renderResult(result: CniResult, version: CniVersion): string {
  return stringifyJson(shapeOf(result, version), 4);
}

function shapeOf(result: CniResult, version: CniVersion): Shape {
  if (isAtLeast(version, "1.0.0")) return newestShape(result, version);
  return isAtLeast(version, "0.3.0") ? listShape(result, version) : familyShape(result, version);
}

function newestShape(result: CniResult, cniVersion: CniVersion): Shape {
  const { domain, nameservers, options, search } = dnsMembers(result.dns);
  const hasDns = [domain, nameservers, options, search].some((member) => member !== undefined);
  return {
    cniVersion,
    dns: hasDns ? { domain, nameservers, options, search } : undefined,
    interfaces: listOf(result.interfaces, ({ name, ...link }) => ({
      mac: given(link.mac),
      mtu: given(link.mtu),
      name,
      pciID: given(link.pciID),
      sandbox: given(link.sandbox),
      socketPath: given(link.socketPath),
    })),
    ips: listOf(result.ips, ({ address, gateway, interface: index }) => ({ address, gateway: given(gateway), interface: index })),
    routes: listOf(result.routes, (route) => {
      const { dst, gw, mtu, advmss, priority, table, scope } = routeMembers(route);
      return { advmss, dst, gw, mtu, priority, scope, table };
    }),
  };
}

/** 0.3.0, 0.3.1, 0.4.0: `mtu`, `socketPath` and `pciID` of a link are lost. */
function listShape(result: CniResult, cniVersion: CniVersion): Shape {
  return {
    cniVersion,
    interfaces: listOf(result.interfaces, ({ name, mac, sandbox }: CniInterface) => ({ name, mac: given(mac), sandbox: given(sandbox) })),
    ips: listOf(result.ips, ({ address, gateway, interface: index }: CniIp) => ({
      version: familyOf(address),
      interface: index,
      address,
      gateway: given(gateway),
    })),
    routes: listOf(result.routes, routeMembers),
    dns: dnsMembers(result.dns),
  };
}

/** 0.1.0, 0.2.0: the first address of each family, with the routes of that family. */
function familyShape(result: CniResult, cniVersion: CniVersion): Shape {
  const shapeOfFamily = (family: "4" | "6"): Shape | undefined => {
    const first = result.ips.find((ip) => familyOf(ip.address) === family);
    const routes = result.routes.filter((route) => familyOf(route.dst) === family);
    return first && { ip: first.address, gateway: given(first.gateway), routes: listOf(routes, ({ dst, gw }) => ({ dst, gw: given(gw) })) };
  };
  const [ip4, ip6] = [shapeOfFamily("4"), shapeOfFamily("6")];
  if (ip4 === undefined && ip6 === undefined) {
    throw new TortieError("result-invalid", `cannot convert the result to CNI version ${cniVersion}: no valid IP addresses`, {
      next: "set cniVersion to 0.3.0 or newer, or let an address be assigned",
    });
  }
  return { cniVersion, ip4, ip6, dns: dnsMembers(result.dns) };
}

/** In the order of the older specifications. */
function routeMembers({ dst, gw, mtu, advmss, priority, table, scope }: CniRoute) {
  return { dst, gw: given(gw), mtu: given(mtu), advmss: given(advmss), priority: given(priority), table, scope };
}

/** In the order of the older specifications. */
function dnsMembers({ nameservers, domain, search, options }: CniDns) {
  const text = (value: string) => value;
  return {
    nameservers: listOf(nameservers ?? [], text),
    domain: given(domain),
    search: listOf(search ?? [], text),
    options: listOf(options ?? [], text),
  };
}

/** Empty lists are left out. */
function listOf<T>(items: readonly T[], shape: (item: T) => Writable): readonly Writable[] | undefined {
  return items.length === 0 ? undefined : items.map(shape);
}

/** Empty strings and zeros are left out, except where zero means something: `interface`, `table`, `scope`. */
function given<T extends string | number>(value: T | undefined): T | undefined {
  return value === "" || value === 0 ? undefined : value;
}

function familyOf(address: string): "4" | "6" {
  return address.includes(":") ? "6" : "4";
}
