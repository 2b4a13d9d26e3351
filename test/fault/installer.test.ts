/**
 * An installer that is killed at any file operation: the host has its old conflist or its new one, whatever that names is there, and the
 * next installation and `uninstall` find everything that the killed one left.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Installation } from "../support/installation.ts";
import { BIN_DIR } from "../support/node.ts";

/** The calls that change names of files. Their content is written before under a name that nobody reads. */
const CALLS = ["rename", "link", "linkat", "unlink", "unlinkat", "fsync"] as const;
const MANY = 60;
const LIST = "10-tortie.conflist";

/** An executable of a few bytes: what is copied is not what is looked at. */
function program(host: Installation, text: string): string {
  const path = join(host.root, "program");
  writeFileSync(path, `#!/bin/sh\necho ${text}\n`, { mode: 0o755 });
  return path;
}

function install(host: Installation, source: string, mtu: string, wrap: readonly string[] = []) {
  const argv = ["install", "--force", "--net-dir", host.netDir, "--bin-dir", host.binDir, "--source", source];
  return host.run([...wrap, join(BIN_DIR, "tortiectl"), ...argv], { CNI_MTU: mtu });
}

const killedAt = (call: string, when: number) => [
  "/usr/bin/strace",
  "-f",
  "-qq",
  "-o",
  "/dev/null",
  "-e",
  `trace=${call}`,
  "-e",
  `inject=${call}:signal=SIGKILL:when=${when}`,
];

const mtuOf = (host: Installation): unknown => JSON.parse(host.conflist(LIST)).plugins[0].mtu;
const said = (host: Installation, name: string) => execFileSync(join(host.binDir, name), { encoding: "utf8" }).trim();

/** Whatever the kill left: a whole list or none, and executables that run. */
function expectWorking(host: Installation, story: object, mtus: readonly unknown[]): void {
  const list = existsSync(join(host.netDir, LIST)) ? mtuOf(host) : undefined;
  expect({ ...story, list, isWhole: mtus.includes(list) }).toEqual({ ...story, list, isWhole: true });
  if (list === undefined) return;
  for (const name of ["tortie", "tortie-ipam"])
    expect({ ...story, said: said(host, name) }).toEqual({ ...story, said: expect.stringMatching(/^(old|new)$/) });
}

describe.each(["first", "second"])("An installer killed in its %s installation", (which) => {
  it("leaves the old state or the new one, and nothing that is not known", async () => {
    let kills = 0;
    for (const call of CALLS) {
      for (let when = 1; when < MANY; when++) {
        using host = new Installation();
        writeFileSync(join(host.netDir, "10-calico.conflist"), "{}");
        const before = [host.names(host.binDir), host.names(host.netDir)];
        if (which === "second") expect(await install(host, program(host, "old"), "1400")).toMatchObject({ exit: 0 });

        const source = program(host, "new");
        const run = await install(host, source, "9000", killedAt(call, when));
        if (run.signal !== "SIGKILL") {
          expect({ call, when, ...run }).toMatchObject({ call, when, exit: 0 });
          break;
        }
        kills++;
        const story = { which, call, when };
        expectWorking(host, story, which === "second" ? [1400, 9000] : [undefined, 9000]);

        // Half of the time somebody tries again, and half of the time gives up.
        if (when % 2 === 0) {
          expect({ story, ...(await install(host, source, "9000")) }).toMatchObject({ story, exit: 0 });
          expect({ story, mtu: mtuOf(host), said: said(host, "tortie") }).toEqual({ story, mtu: 9000, said: "new" });
        }
        expect(await host.run([join(BIN_DIR, "tortiectl"), "uninstall", "--net-dir", host.netDir])).toMatchObject({ exit: 0 });
        const left = [host.names(host.binDir), host.names(host.netDir)];
        expect({ story, left }).toEqual({ story, left: before });
        expect(readFileSync(join(host.netDir, "10-calico.conflist"), "utf8")).toBe("{}");
      }
    }
    expect(kills).toBeGreaterThan(10);
  }, 600_000);
});
