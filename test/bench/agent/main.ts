/**
 * `npm run bench -- --agent`: the plugin with the agent, and without it, beside the smallest reference plugins, `ptp` with `host-local`,
 * on the local datastore, in one run.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Contender } from "../contender.ts";
import { compare, report } from "./compare.ts";
import { startResident } from "./resident.ts";

const SIZE = { rounds: 40, burst: 60, burstRounds: 5 };

const directory = mkdtempSync(join(tmpdir(), "tortie-bench-"));
const bin = resolve("dist/bin");
/** As on a machine, a tmpfs: the sandbox has its own. */
const run = "/run/tortie-bench";

function tortie(name: string, agent: "require" | "off"): Contender {
  const netconf = {
    cniVersion: "1.0.0",
    name: `bench-${agent}`,
    type: "tortie",
    agent,
    agent_socket: join(agent === "off" ? join(directory, "none") : run, "tortie.sock"),
    datastore_type: "local",
    datastore_path: join(directory, `${agent}.db`),
    ipam_lock_file: join(directory, "ipam.lock"),
    nodename: "bench-node",
    ipam: { type: "tortie-ipam", pools: [{ cidr: agent === "off" ? "10.98.0.0/16" : "10.99.0.0/16" }] },
  };
  return { name, executable: join(bin, "tortie"), path: bin, netconf: JSON.stringify(netconf) };
}

const peer: Contender = {
  name: "ptp + host-local",
  executable: "/usr/lib/cni/ptp",
  path: "/usr/lib/cni",
  netconf: JSON.stringify({
    cniVersion: "1.0.0",
    name: "peer",
    type: "ptp",
    ipam: { type: "host-local", subnet: "10.97.0.0/16", dataDir: join(directory, "host-local") },
  }),
};

const namespaces = Array.from({ length: SIZE.burst }, (_, i) => `bench-${process.pid}-${i}`);
try {
  for (const name of namespaces) execFileSync("ip", ["netns", "add", name]);
  await using _ = await startResident(join(bin, "tortie-node"), run, ["--node-name", "bench-node"]);
  const contenders = [peer, tortie("with the agent", "require"), tortie("without agent", "off")];
  report(
    await compare(contenders, SIZE, (command, pod, round) => ({
      command,
      containerId: `${round}-${pod}`,
      netns: `/run/netns/${namespaces[pod]}`,
    })),
    SIZE,
  );
} finally {
  for (const name of namespaces) execFileSync("ip", ["netns", "del", name]);
  rmSync(directory, { recursive: true, force: true });
}
