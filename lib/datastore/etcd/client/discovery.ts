/** SRV discovery (etcd's client/pkg/srv): the members that a domain's records name, those with TLS first. */
import { resolveSrv } from "node:dns/promises";
import type { ApiServer } from "../../../kubernetes/config/api-config.ts";
import { CODES, EtcdError } from "./etcd-error.ts";
import { serverOf } from "./settings.ts";

interface SrvRecord {
  readonly name: string;
  readonly port: number;
  readonly priority: number;
}

/** A lookup of the records of one name. */
export type LookUp = (name: string) => Promise<readonly SrvRecord[]>;

const SERVICES = [
  { service: "_etcd-client-ssl._tcp", scheme: "https" },
  { service: "_etcd-client._tcp", scheme: "http" },
] as const;

/**
 * @throws EtcdError when no name server answers, or none knows of a member
 */
export async function discoverMembers(domain: string, lookUp: LookUp = resolveSrv): Promise<readonly ApiServer[]> {
  const failures: string[] = [];
  const servers: ApiServer[] = [];
  for (const { service, scheme } of SERVICES) {
    const name = `${service}.${domain}`;
    try {
      const records = [...(await lookUp(name))].sort((one, other) => one.priority - other.priority);
      for (const { name: host, port } of records)
        servers.push(serverOf(`${scheme}://${withoutDot(host)}:${port}`, `SRV record of ${name}`));
    } catch (error) {
      failures.push(`${name}: ${codeOf(error)}`);
    }
  }
  if (servers.length > 0) return servers;
  throw new EtcdError(`etcd discovery: no SRV record of ${domain} names a member (${failures.join("; ")})`, {
    code: CODES.none,
    isRepetition: false,
  });
}

function withoutDot(host: string): string {
  return host.endsWith(".") ? host.slice(0, -1) : host;
}

function codeOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
