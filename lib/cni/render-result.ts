/**
 * The result of an ADD as each version of the specification prints it, byte for byte as Calico's plugins do (C§5.2, recordings
 * version-*, dual-*, auto-*): four spaces of indentation, no newline at the end; keys in alphabetical order from 1.0.0 on and in the
 * order of the older specifications before.
 */
import { TortieError } from "../errors/errors.ts";
import { stringifyJson, type Writable } from "../json/stringify.ts";
import type { CniDns, CniInterface, CniIp, CniResult, CniRoute, CniVersion } from "./protocol.ts";
import { isAtLeast } from "./version.ts";

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
