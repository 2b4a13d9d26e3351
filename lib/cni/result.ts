/**
 * Reads and prints results of ADD. `parseResult` reads any version into the form of 1.1.0 (protocol.ts); `renderResult` prints any version
 * byte for byte as Calico's plugins do (C§5.2, recordings version-*, dual-*, auto-*): four spaces of indentation, no newline at the end,
 * keys in alphabetical order from 1.0.0 on and in the order of the older specifications before.
 */
import { formatAddress, formatPrefix, parseAddress, parsePrefix } from "../addresses/address.ts";
import { TortieError } from "../errors/errors.ts";
import { isJsonObject, type JsonObject, type JsonValue, kindOf, memberOf, stringifyJson, type Writable } from "../json/value.ts";
import type { CniDns, CniInterface, CniIp, CniResult, CniRoute, CniVersion } from "./protocol.ts";
import { ABSENT_VERSION, isAtLeast, isCniVersion } from "./request.ts";

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

/** Reads 0.3.0 and newer. `ips[].version` of 0.x says nothing that the address does not say. */
function parseListForm(fields: ResultFields): CniResult {
  return {
    interfaces: fields.objects("interfaces").map(parseInterface),
    ips: fields.objects("ips").map((ip) => parseIp(ip, "address")),
    routes: fields.objects("routes").map(parseRoute),
    dns: parseDns(fields.object("dns")),
  };
}

/** Reads 0.1.0 and 0.2.0: one address a family, routes below it. */
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
  return {
    name: fields.string("name") ?? "",
    mac: fields.string("mac"),
    mtu: fields.integer("mtu"),
    sandbox: fields.string("sandbox"),
    socketPath: fields.string("socketPath"),
    pciID: fields.string("pciID"),
  };
}

function parseIp(fields: ResultFields, addressKey: "address" | "ip"): CniIp {
  return { gateway: addressOf(fields, "gateway"), interface: fields.integer("interface"), address: prefixOf(fields, addressKey) };
}

function parseRoute(fields: ResultFields): CniRoute {
  return {
    gw: addressOf(fields, "gw"),
    mtu: fields.integer("mtu"),
    advmss: fields.integer("advmss"),
    priority: fields.integer("priority"),
    table: fields.integer("table"),
    scope: fields.integer("scope"),
    dst: prefixOf(fields, "dst"),
  };
}

function parseDns(fields: ResultFields | undefined): CniDns {
  if (fields === undefined) return {};
  const listed = (key: string) => {
    const texts = fields.strings(key);
    return texts.length === 0 ? undefined : texts;
  };
  return { nameservers: listed("nameservers"), search: listed("search"), options: listed("options"), domain: fields.string("domain") };
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

/** Writes 0.3.0, 0.3.1, 0.4.0: `mtu`, `socketPath` and `pciID` of a link are lost. */
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

/** Writes 0.1.0, 0.2.0: the first address of each family, with the routes of that family. */
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

/** Lists the members in the order of the older specifications. */
function routeMembers({ dst, gw, mtu, advmss, priority, table, scope }: CniRoute) {
  return { dst, gw: given(gw), mtu: given(mtu), advmss: given(advmss), priority: given(priority), table, scope };
}

/** Lists the members in the order of the older specifications. */
function dnsMembers({ nameservers, domain, search, options }: CniDns) {
  const listed = (texts: readonly string[] = []) => (texts.length === 0 ? undefined : texts);
  return { nameservers: listed(nameservers), domain: given(domain), search: listed(search), options: listed(options) };
}

/** Leaves empty lists out. */
function listOf<T>(items: readonly T[], shape: (item: T) => Writable): readonly Writable[] | undefined {
  return items.length === 0 ? undefined : items.map(shape);
}

/** Leaves empty strings and zeros out, except where zero means something: `interface`, `table`, `scope`. */
function given<T extends string | number>(value: T | undefined): T | undefined {
  return value === "" || value === 0 ? undefined : value;
}

function familyOf(address: string): "4" | "6" {
  return address.includes(":") ? "6" : "4";
}

/** Holds a JSON object of a result and where it stands, for instance "CNI result: ips[0]". */
class ResultFields {
  readonly #object: JsonObject;
  readonly #path: string;
  readonly #separator: string;

  /** @throws TortieError `result-invalid` when `value` is no object */
  constructor(value: JsonValue, path: string, separator = ".") {
    this.#path = path;
    this.#separator = separator;
    if (!isJsonObject(value)) throw this.refusal(`expected an object, found ${kindOf(value)}`);
    this.#object = value;
  }

  /** Makes the error that names this object, or the member `key` of it. */
  refusal(problem: string, key?: string): TortieError {
    return new TortieError("result-invalid", `${key === undefined ? this.#path : this.#pathOf(key)}: ${problem}`);
  }

  /** An empty string counts as absent, as everywhere in CNI results. */
  string(key: string): string | undefined {
    const value = this.#member(key);
    if (value === undefined || value === "") return undefined;
    if (typeof value !== "string") throw this.#wrongType(key, "a string", value);
    return value;
  }

  /** Reads an integer without fraction and exponent, small enough to be exact. */
  integer(key: string): number | undefined {
    const value = this.#member(key);
    if (value === undefined) return undefined;
    if (typeof value !== "number" || !Number.isSafeInteger(value)) throw this.#wrongType(key, "an integer", value);
    return value;
  }

  strings(key: string): string[] {
    return this.#array(key).map((value, index) => {
      if (typeof value !== "string") throw this.#wrongType(`${key}[${index}]`, "a string", value);
      return value;
    });
  }

  object(key: string): ResultFields | undefined {
    const value = this.#member(key);
    return value === undefined ? undefined : new ResultFields(value, this.#pathOf(key));
  }

  objects(key: string): ResultFields[] {
    return this.#array(key).map((value, index) => new ResultFields(value, this.#pathOf(`${key}[${index}]`)));
  }

  #array(key: string): readonly JsonValue[] {
    const value = this.#member(key);
    if (value === undefined) return [];
    if (!isArray(value)) throw this.#wrongType(key, "an array", value);
    return value;
  }

  #member(key: string): JsonValue | undefined {
    return memberOf(this.#object, key) ?? undefined;
  }

  #pathOf(key: string): string {
    return `${this.#path}${this.#separator}${key}`;
  }

  #wrongType(key: string, expected: string, value: JsonValue): TortieError {
    return this.refusal(`expected ${expected}, found ${kindOf(value)}`, key);
  }
}

/** Array.isArray does not narrow readonly arrays. */
function isArray(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}
