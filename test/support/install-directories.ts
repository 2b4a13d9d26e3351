/** A host's directories and what an installer is given, for installations in the test's own process. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type InstallPaths, type InstallSettings, readInstallSettings, TORTIE_NAMES } from "../../installer/settings.ts";

export class InstallDirectories implements Disposable {
  readonly root = mkdtempSync(join(tmpdir(), "tortie-install-"));
  readonly binDir = join(this.root, "bin");
  readonly netDir = join(this.root, "net");
  readonly secrets = join(this.root, "secrets");
  readonly serviceAccount = join(this.root, "account");
  readonly pluginSource = join(this.root, "plugins");
  readonly said: string[] = [];
  readonly log = (line: string): void => void this.said.push(line);

  constructor() {
    for (const directory of [this.binDir, this.netDir, this.secrets]) mkdirSync(directory);
    writeFileSync(join(this.root, "executable"), "ours", { mode: 0o755 });
  }

  settings(env: Readonly<Record<string, string>> = {}, paths: Partial<InstallPaths> = {}): InstallSettings {
    const host: InstallPaths = {
      source: join(this.root, "executable"),
      pluginSource: this.pluginSource,
      binDirs: [this.binDir],
      netDir: this.netDir,
      serviceAccount: this.serviceAccount,
      ...paths,
    };
    const given = { CNI_NET_DIR: this.netDir, TLS_ASSETS_DIR: this.secrets, ...env };
    return readInstallSettings(given, host, TORTIE_NAMES, "10-tortie.conflist");
  }

  addSecrets(...names: readonly string[]): void {
    for (const name of names) writeFileSync(join(this.secrets, name), `${name}\n`, { mode: 0o644 });
  }

  addServiceAccount(files: Readonly<Record<string, string>>): void {
    mkdirSync(this.serviceAccount, { recursive: true });
    for (const [name, text] of Object.entries(files)) writeFileSync(join(this.serviceAccount, name), text);
  }

  /** What a runtime sees in a directory: no hidden files. */
  visible(directory: string): readonly string[] {
    return readdirSync(directory)
      .filter((name) => !name.startsWith("."))
      .sort();
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}
