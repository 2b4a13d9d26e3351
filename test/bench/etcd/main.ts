/**
 * `npm run bench -- --etcd`: whole plugin processes on a real etcd and on the local store, without the agent and with it, alternating in
 * one run, so that the machine's noise falls on all; only ratios mean anything.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startEtcd } from "../../support/etcd/etcd.ts";
import { BIN_DIR } from "../../support/node.ts";
import { compare, report } from "../compare.ts";
import type { Contender } from "../contender.ts";
import { RUN_DIRECTORY, startResident } from "../resident.ts";
import { linkWholeProgram } from "../whole-program.ts";

const SIZE = { rounds: 60, burst: 60, burstRounds: 3 };
const RESOURCES = "/calico/resources/v3/projectcalico.org";

const directory = mkdtempSync(join(tmpdir(), "tortie-bench-"));
using whole = linkWholeProgram(BIN_DIR);

/** @param node a node for each, so that none finds its block changed by another */
function contender(name: string, node: string, agent: "require" | "off", keys: Readonly<Record<string, unknown>>): Contender {
  const netconf = {
    cniVersion: "1.0.0",
    name: "bench",
    type: "tortie",
    agent,
    // As on a machine without one.
    ...(agent === "off" ? { agent_socket: join(directory, "none", "tortie.sock") } : {}),
    nodename: node,
    nodename_file_optional: true,
    ipam_lock_file: join(directory, `${node}.lock`),
    ...keys,
  };
  // An agent is there: a forwarder would ask it first.
  const bin = agent === "off" ? whole.directory : BIN_DIR;
  return { name, executable: join(bin, "tortie"), path: bin, netconf: JSON.stringify(netconf) };
}

const local = (name: string, node: string, agent: "require" | "off", cidr: string): Contender =>
  contender(name, node, agent, {
    datastore_type: "local",
    datastore_path: join(directory, `${node}.db`),
    ipam: { type: "tortie-ipam", pools: [{ cidr }] },
  });

await using etcd = await startEtcd();
const put = (plural: string, name: string, spec: object) =>
  etcd.put(`${RESOURCES}/${plural}/${name}`, JSON.stringify({ metadata: { name }, spec }));
await put("clusterinformations", "default", { datastoreReady: true });
await put("ippools", "pool", { cidr: "10.98.0.0/16", blockSize: 26 });
for (const node of ["node1", "node2"]) await put("nodes", node, {});
const onEtcd = { datastore_type: "etcdv3", etcd_endpoints: etcd.endpoints, ipam: { type: "tortie-ipam" } };

const direct = [local("local store", "local1", "off", "10.96.0.0/16"), contender("etcd", "node1", "off", onEtcd)];
const withAgent = [
  local("local store, with the agent", "local2", "require", "10.97.0.0/16"),
  contender("etcd, with the agent", "node2", "require", onEtcd),
];
const namespaces = Array.from({ length: SIZE.burst }, (_, index) => `bench-${process.pid}-${index}`);
try {
  for (const name of namespaces) execFileSync("ip", ["netns", "add", name]);
  await using _ = await startResident(RUN_DIRECTORY, ["--node-name", "node2"]);
  const times = await compare([...direct, ...withAgent], SIZE, (command, pod, round) => ({
    command,
    containerId: `${round}-${pod}`,
    netns: `/run/netns/${namespaces[pod]}`,
  }));
  for (const pair of [direct, withAgent]) report(new Map([...times].filter(([one]) => pair.includes(one))), SIZE);
} finally {
  for (const name of namespaces) execFileSync("ip", ["netns", "del", name]);
  rmSync(directory, { recursive: true, force: true });
}
