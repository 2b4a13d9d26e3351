/** `tortiectl datastore migrate`: opens both stores, runs the migration, and says what it did. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { TortieError } from "../../../lib/errors/errors.ts";
import { isForeign, type KindDifference } from "../../../migration/difference.ts";
import { compareStores, migrate, type Side } from "../../../migration/migrate.ts";
import { openStore, type Store } from "../ipam/store.ts";
import { milliseconds, type Terminal } from "../terminal.ts";
import { printReport, progressOn } from "./report.ts";

/** As the configuration's own default. */
const LOCAL_FILE = "/var/lib/tortie/tortie.db";

/**
 * The plugins' five requests a second would pause a cluster of 5,000 pods for more than half an hour. There is one connection, so that
 * the API server sets the pace.
 */
const IN_A_HURRY = { K8S_CLIENT_QPS: "1000", K8S_CLIENT_BURST: "1000" };

export type StoreType = "local" | "kubernetes" | "etcdv3";

interface MigrateOptions {
  readonly from: StoreType;
  readonly to: StoreType;
  readonly datastore: string | undefined;
  readonly kubeconfig: string | undefined;
  readonly overwrite: boolean;
  readonly dryRun: boolean;
  /** Seconds. */
  readonly wait: number;
  readonly settle: number;
  readonly record: string;
  readonly json: boolean;
}

/** @returns exit status: 1 when nothing was migrated, or would not be (--dry-run) */
export async function migrateStore(options: MigrateOptions, terminal: Terminal): Promise<number> {
  const { from, to } = options;
  if (from === to) throw new TortieError("option-invalid", `--from and --to are both ${from}`);
  const [waitMs, settleMs] = [milliseconds("wait", options.wait), milliseconds("settle", options.settle)];
  await using source = await open(from, options, false);
  if (options.dryRun) return await compare(source, options, terminal);
  await using target = await open(to, options, true);
  const [ours, theirs] = [sideOf(source, from, options), sideOf(target, to, options)];
  using interruption = new Interruption();
  const progress = progressOn(terminal, options.json);
  const report = await migrate(ours, theirs, {
    overwrite: options.overwrite,
    recordPath: options.record,
    waitMs,
    settleMs,
    nowMs: Date.now,
    signal: interruption.signal,
    onProgress: progress.show,
  }).finally(progress.end);
  printReport(terminal, options, { from: ours, to: theirs, ...report });
  return 0;
}

async function compare(source: Store, options: MigrateOptions, terminal: Terminal): Promise<number> {
  const { from, to } = options;
  const isToBeMade = to === "local" && !existsSync(options.datastore ?? LOCAL_FILE);
  await using target = isToBeMade ? undefined : await open(to, options, false);
  const [ours, theirs] = [sideOf(source, from, options), target && sideOf(target, to, options)];
  const kinds: readonly KindDifference[] = await compareStores(ours, theirs);
  printReport(terminal, options, { from: ours, to: theirs, kinds, written: new Map() });
  return kinds.some(isForeign) && !options.overwrite ? 1 : 0;
}

function open(type: StoreType, { datastore, kubeconfig = process.env.KUBECONFIG }: MigrateOptions, mayBeMade: boolean): Promise<Store> {
  const none = { datastore: undefined, conf: undefined, kubeconfig: undefined, json: false };
  if (type === "local") return openStore({ ...none, datastore: datastore ?? LOCAL_FILE }, mayBeMade);
  if (type === "etcdv3") return openStore({ ...none, datastore: "etcdv3" });
  if (kubeconfig === undefined) throw new TortieError("option-invalid", "which cluster? give --kubeconfig or set KUBECONFIG");
  return openStore({ ...none, kubeconfig }, false, IN_A_HURRY);
}

/** A description may say more once the server has been asked. */
function sideOf({ datastore, unreadable }: Store, type: StoreType, options: MigrateOptions): Side {
  const { description } = datastore;
  const identity = type === "local" ? `local ${resolve(options.datastore ?? LOCAL_FILE)}` : description.replace(/, group .*$/, "");
  return { datastore, identity, unreadable };
}

/** A first SIGINT or SIGTERM ends the work before the next object, so that the stores become ready again. */
class Interruption {
  readonly #controller = new AbortController();
  readonly #end = () => this.#controller.abort(new TortieError("operation-interrupted", "the migration was interrupted"));

  constructor() {
    process.once("SIGINT", this.#end);
    process.once("SIGTERM", this.#end);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    process.off("SIGINT", this.#end);
    process.off("SIGTERM", this.#end);
  }
}
