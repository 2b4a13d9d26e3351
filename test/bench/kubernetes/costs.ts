/** What operations cost the API server: requests by its own metrics and by its audit log, and connections by the kernel. */
import { readFileSync } from "node:fs";
import { countsBetween } from "../../support/kubernetes/test-cluster.ts";
import { type Contender, measure } from "../contender.ts";
import type { Stage } from "./stage.ts";

export interface Cost {
  readonly title: string;
  /** An operation's requests by apiserver_request_total, "GET crd.projectcalico.org/ippools" → how many. */
  readonly requests: ReadonlyMap<string, number>;
  /** An operation's lines in the audit log. */
  readonly audited: number;
  /** TCP connections that an operation opened. */
  readonly connections: number;
}

/** Resources that the server's own controllers never ask for; namespaces they look at once a minute. */
const RESOURCES = /^\w+ (?:(?:pods|namespaces|nodes)(?:\/status)?$|(?:crd\.)?projectcalico\.org\/)/;

/** ADD, DEL, and the DEL that a runtime sends again, of so many pods one after the other. */
export async function measureCosts(stage: Stage, plugin: Contender, pods: number): Promise<readonly Cost[]> {
  return [
    await costOf(stage, plugin, "ADD, warm", "ADD", pods),
    await costOf(stage, plugin, "DEL", "DEL", pods),
    await costOf(stage, plugin, "DEL, nothing left", "DEL", pods),
  ];
}

async function costOf({ cluster, call }: Stage, plugin: Contender, title: string, command: "ADD" | "DEL", pods: number): Promise<Cost> {
  const mark = await cluster.mark();
  const before = await cluster.requestCounts();
  const connections = acceptedConnections();
  for (let pod = 0; pod < pods; pod++) await measure(plugin, call(command, pod, "costs"));
  const opened = acceptedConnections() - connections;
  // The audit log is waited for until it is complete; the counters of the same requests are then.
  const audited = await cluster.requests(mark);
  const counts = [...countsBetween(before, await cluster.requestCounts())].filter(([name]) => RESOURCES.test(name));
  return {
    title,
    requests: new Map(counts.map(([name, count]) => [name, count / pods])),
    audited: audited.length / pods,
    connections: opened / pods,
  };
}

/** TCP connections that were taken in this network namespace since it was made (PassiveOpens, RFC 4022). */
function acceptedConnections(): number {
  const lines = readFileSync("/proc/net/snmp", "utf8").split("\n");
  const [names = [], values = []] = lines.filter((line) => line.startsWith("Tcp:")).map((line) => line.split(" "));
  return Number(values[names.indexOf("PassiveOpens")]);
}
