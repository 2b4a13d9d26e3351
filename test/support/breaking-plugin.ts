/** A CNI plugin for the end of a chain, which breaks on ADD what the plugins before it have made, as something else on a host may do. */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Type of the plugin in a list. */
export const BREAKING = "breaking";

/** The script has HOST_END, ADDRESS4, ADDRESS6 and CNI_NETNS. */
const PROGRAM = `#!${process.execPath}
import { readFileSync } from "node:fs";
const { CNI_COMMAND, PATH = "" } = process.env;
const conf = JSON.parse(readFileSync(0, "utf8"));
if (CNI_COMMAND === "VERSION") console.log(JSON.stringify({ cniVersion: "1.0.0", supportedVersions: ["1.0.0"] }));
if (CNI_COMMAND === "ADD") {
  const { interfaces, ips } = conf.prevResult;
  const addressOf = (isSixth) => ips.map(({ address }) => address.split("/")[0]).find((one) => one.includes(":") === isSixth) ?? "";
  const env = { ...process.env, PATH: PATH + ":/usr/sbin:/usr/bin:/sbin:/bin", HOST_END: interfaces.find(({ sandbox }) => !sandbox).name, ADDRESS4: addressOf(false), ADDRESS6: addressOf(true) };
  const { exitCode, stderr } = Bun.spawnSync(["/bin/sh", "-euc", conf.script], { env });
  if (exitCode !== 0) {
    console.log(JSON.stringify({ cniVersion: "1.0.0", code: 100, msg: "breaking failed", details: stderr.toString() }));
    process.exit(1);
  }
  console.log(JSON.stringify(conf.prevResult));
}
`;

/** Puts the plugin into a folder. */
export function installBreakingPlugin(folder: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, BREAKING), PROGRAM);
  chmodSync(join(folder, BREAKING), 0o755);
}
