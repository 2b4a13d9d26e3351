/** The sandbox as the host of one node: a way out, and directories that runtimes and installers write to, none of them the machine's. */
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Everything of the run; socket paths are limited, and lie below it. */
export const DIR = "/run/k";
export const NODE = "node1";
export const NODE_ADDRESS = "192.168.77.1";

/** Where manifests put plugins and configurations; the machine's own stay out of reach, and need not be there. */
const COVERED = ["/etc", "/opt"];
const SANDBOXES = "/run/netns";

/** @param apiPort of the API server, which no client of it may be given */
export function makeHost(apiPort: number): void {
  mkdirSync(DIR);
  // A mount that containers shall receive later must be shared (mount_namespaces(7)); nobody outside of the sandbox is a peer.
  run("mount", "--make-rshared", "/");
  for (const directory of COVERED) {
    const own = join(DIR, "host", directory);
    for (const part of ["upper", "work"]) mkdirSync(join(own, part), { recursive: true });
    const options = `lowerdir=${directory},upperdir=${own}/upper,workdir=${own}/work`;
    run("mount", "-t", "overlay", "-o", options, "overlay", directory);
  }
  connect(apiPort);
}

/** When nothing runs any more. */
export function leaveHost(): void {
  run("ip", "link", "delete", "uplink");
  for (const directory of COVERED) run("umount", "--lazy", directory);
  unmountBelow(DIR);
  rmSync(DIR, { recursive: true, force: true });
}

/** What a reboot takes, when no process of the node runs any more: mounts, sandboxes, rules, /run, and the boot's id. */
export function loseKernelState(): void {
  unmountBelow(DIR);
  // A containerd that was killed may have left a file that nothing is mounted on.
  unmountBelow(SANDBOXES);
  for (const name of readdirSync(SANDBOXES)) rmSync(join(SANDBOXES, name));
  run("nft", "flush", "ruleset");
  for (const path of [`${DIR}/run`, `${DIR}/runc`, `${DIR}/containerd.sock`, `${DIR}/containerd.sock.ttrpc`, "/run/tortie", "/run/calico"])
    rmSync(path, { recursive: true, force: true });
  const bootId = join(DIR, "boot-id");
  writeFileSync(bootId, `${randomUUID()}\n`);
  run("mount", "--bind", bootId, "/proc/sys/kernel/random/boot_id");
}

/** What containers and volumes had mounted. */
function unmountBelow(directory: string): void {
  const mounts = execFileSync("findmnt", ["-rno", "TARGET"], { encoding: "utf8" }).trim().split("\n");
  for (const target of mounts.filter((path) => path.startsWith(`${directory}/`)).reverse()) {
    // A mount goes with the one that it was bound from.
    if (existsSync(target)) execFileSync("umount", ["--lazy", target], { stdio: "ignore" });
  }
}

/**
 * The node's way out, and what an administrator switches on. A client that tries again while the API server is away must not be given
 * the server's own port: it would be connected with itself, and the server could not have it back.
 */
function connect(apiPort: number): void {
  run("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "wire");
  run("ip", "address", "add", `${NODE_ADDRESS}/24`, "dev", "uplink");
  for (const link of ["wire", "uplink"]) run("ip", "link", "set", link, "up");
  run("ip", "route", "add", "default", "via", "192.168.77.254");
  writeFileSync("/proc/sys/net/ipv4/ip_forward", "1");
  writeFileSync("/proc/sys/net/ipv4/ip_local_reserved_ports", String(apiPort));
}

function run(program: string, ...args: readonly string[]): void {
  execFileSync(program, args, { stdio: ["ignore", "ignore", "pipe"] });
}
