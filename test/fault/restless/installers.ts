/** Installers that run at once for the same host: what is there under its final name is whole, whichever of them wrote it last. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Installation, type InstallRun } from "../../support/installation.ts";
import { BIN_DIR } from "../../support/node.ts";
import type { World } from "./world.ts";

/** Takes long enough to copy that the two meet. */
const PROGRAM_BYTES = 16 * 1024 * 1024;
const LONGEST_HEAD_START_MS = 200;
const LONGEST_RUN_MS = 600;

/** @returns what is wrong afterwards */
export async function installedAtOnce(world: World): Promise<readonly string[]> {
  using host = new Installation();
  using sources = new Sources();
  const isKilled = world.random() < 0.5;
  const end = () => (isKilled ? ["/usr/bin/timeout", "--signal=KILL", String((1 + world.below(LONGEST_RUN_MS)) / 1_000)] : []);
  world.operations += 4;
  const first = sources.install(host, end());
  await Bun.sleep(world.below(LONGEST_HEAD_START_MS));
  const runs = await Promise.all([first, sources.install(host, end())]);
  const refused = isKilled ? [] : runs.filter(({ exit }) => exit !== 0);
  const after = sources.halves(host).map((name) => `lost: ${name} is not whole after two installers`);
  const last = await sources.install(host);
  using alone = new Installation();
  await sources.install(alone);
  return [
    ...[...refused, ...(last.exit === 0 ? [] : [last])].map(
      ({ log }) => `refused: an installation: ${log.trim().split("\n").slice(-3).join(" ")}`,
    ),
    ...after,
    ...sources.halves(host).map((name) => `lost: ${name} is not whole after a third installer`),
    ...namesIn(host)
      .filter((name) => !namesIn(alone).includes(name))
      .map((name) => `not-released: ${name} after a third installer`),
  ];
}

function namesIn(host: Installation): readonly string[] {
  return [host.binDir, host.netDir].flatMap((directory) => host.names(directory));
}

/** Programs on a file system of their own, so that an installer must copy them. */
class Sources implements Disposable {
  readonly #dir = mkdtempSync("/run/source-");
  readonly #texts = [`#!/bin/sh\nexit 0\n${"#".repeat(PROGRAM_BYTES)}\n`, '#!/bin/sh\n# TORTIE-FORWARDER new\nexec "$0-main"\n'] as const;

  constructor() {
    for (const [place, name] of ["program", "tortie"].entries()) {
      writeFileSync(join(this.#dir, name), this.#texts[place] ?? "", { mode: 0o755 });
    }
  }

  install(host: Installation, wrap: readonly string[] = []): Promise<InstallRun> {
    const places = ["--net-dir", host.netDir, "--bin-dir", host.binDir, "--source", join(this.#dir, "program")];
    return host.run([...wrap, join(BIN_DIR, "tortiectl"), "install", "--force", ...places]);
  }

  /** Names of plugins that are neither of the two programs. What has another ending is no plugin yet. */
  halves(host: Installation): readonly string[] {
    const names = host.names(host.binDir).filter((name) => !/[.~]/.test(name));
    return names.filter((name) => !this.#texts.some((text) => text === readFileSync(join(host.binDir, name), "latin1")));
  }

  [Symbol.dispose](): void {
    rmSync(this.#dir, { recursive: true });
  }
}
