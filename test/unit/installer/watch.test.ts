/** What the watch says of an installation that others have edited. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { install } from "../../../installer/install.ts";
import { readInstallSettings, TORTIE_NAMES } from "../../../installer/settings.ts";
import { InstallationWatch } from "../../../installer/watch.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "tortie-watch-"));
  for (const name of ["net", "bin"]) mkdirSync(join(directory, name));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await Bun.sleep(10);
}

it("W2: remarks about an edited list are logged once, however often the files are compared", async () => {
  const netDir = join(directory, "net");
  const list = join(netDir, "10-tortie.conflist");
  writeFileSync(join(directory, "executable"), "ours", { mode: 0o755 });
  const host = {
    source: join(directory, "executable"),
    pluginSource: "",
    binDirs: [join(directory, "bin")],
    netDir,
    serviceAccount: join(directory, "none"),
  };
  const settings = readInstallSettings({ CNI_NET_DIR: netDir }, host, TORTIE_NAMES, "10-tortie.conflist");
  const said: string[] = [];
  const log = (line: string) => void said.push(line);
  await install(settings, () => {});
  const installed = readFileSync(list, "utf8");
  const edited = JSON.parse(installed);
  edited.plugins.push({ type: "istio-cni" });
  writeFileSync(list, JSON.stringify(edited));

  const stop = new AbortController();
  const watch = new InstallationWatch(settings, await install(settings, log), log);
  const running = watch.run(stop.signal);
  for (let round = 0; round < 3; round++) {
    // In one line: each comparison that sees it writes it anew.
    writeFileSync(list, JSON.stringify(edited));
    await until(() => said.filter((line) => line === `${list} written`).length === round + 2);
  }
  stop.abort();
  await running;

  expect(said.filter((line) => line.includes("istio-cni"))).toEqual([`${list}: plugin istio-cni, which somebody else added, stays`]);
});
