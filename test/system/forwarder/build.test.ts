/** How the forwarder is built: the same bytes each time, for both architectures, or not at all (scripts/build-forwarder). */

import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { decodeCall } from "../../../handover/decode-frame.ts";
import { isForwarder } from "../../../installer/install.ts";
import { shared, TemporaryDirectory } from "../../support/fixtures.ts";
import { answerOf, ForwarderFolder } from "../../support/forwarder.ts";

const has = (command: string) => spawnSync("/bin/sh", ["-c", `command -v ${command}`]).status === 0;

describe("The build of the forwarder", () => {
  const dir = shared(() => new TemporaryDirectory());

  const build = (name: string, ...architecture: string[]) => {
    const file = join(dir.path, name);
    execFileSync("bash", ["scripts/build-forwarder", file, ...architecture], { stdio: "pipe" });
    return file;
  };

  (has("gcc") ? it : it.skip)("gives the same bytes each time: a static file that the installer knows", () => {
    const [first, second] = [build("first"), build("second")];
    expect(readFileSync(first).equals(readFileSync(second))).toBe(true);
    expect(isForwarder(first)).toBe(true);
    // A dynamically linked one has a program interpreter, PT_INTERP (elf(5)).
    expect(readFileSync(first).includes("/lib64/ld-")).toBe(false);
    expect(readFileSync(first).includes("/lib/ld-")).toBe(false);
  });

  (has("aarch64-linux-gnu-gcc") && has("qemu-aarch64-static") ? it : it.skip)("makes one for arm64 that forwards a call", async () => {
    await using folder = new ForwarderFolder(build("arm64", "arm64"));
    await folder.listen((socket, call) => socket.end(answerOf(200, `${decodeCall(call).plugin} ${decodeCall(call).stdin.length}`)));
    const { exit, stdout, stderr } = await folder.run({ around: ["qemu-aarch64-static"], stdin: "{12}" });
    const { version } = JSON.parse(readFileSync("package.json", "utf8"));
    expect({ exit, stdout, stderr }).toEqual({ exit: 0, stdout: `${version} 4`, stderr: "" });
  });

  it("says what it costs where there is no C compiler, and makes nothing", () => {
    const bin = join(dir.path, "bin");
    execFileSync("bash", ["-c", `mkdir ${bin} && ln -s $(command -v bash dirname uname node) ${bin}`]);
    const run = spawnSync(join(bin, "bash"), ["scripts/build-forwarder", join(dir.path, "none")], { env: { PATH: bin }, encoding: "utf8" });
    expect([run.status, run.stderr]).toEqual([3, expect.stringContaining("no C compiler")]);
    expect(isForwarder(join(dir.path, "none"))).toBe(false);
  });
});
