/** Runs `tortiectl ipam configure`: shows the configuration, or changes it by compare-and-swap and shows before and after. */
import { DEFAULT_CONFIGURATION } from "../../../ipam-plugin/allocator/operation.ts";
import type { Datastore } from "../../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../../lib/datastore/errors.ts";
import type { IpamConfiguration } from "../../../lib/datastore/resources.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { stringifyJson } from "../../../lib/json/value.ts";
import { columns, type Terminal } from "../terminal.ts";
import { openStore, type StoreOptions } from "./store.ts";

/** Suffices, because only people change the configuration. */
const TRIES = 5;

interface ConfigureOptions extends StoreOptions {
  readonly strictAffinity: boolean | undefined;
  readonly autoAllocateBlocks: boolean | undefined;
  readonly maxBlocksPerHost: number | undefined;
  readonly ipCooldownSeconds: number | undefined;
}

interface Change {
  readonly before: IpamConfiguration;
  readonly after: IpamConfiguration;
}

/** @returns exit status */
export async function configureStore(options: ConfigureOptions, terminal: Terminal): Promise<number> {
  const wanted = wantedChange(options);
  const isReading = Object.keys(wanted).length === 0;
  await using store = await openStore(options, !isReading);
  const { before, after } = await change(store.datastore, wanted, TRIES);
  const keys = Object.keys(before).filter((key): key is keyof IpamConfiguration => key in before);
  const changed = keys.filter((key) => before[key] !== after[key]);
  if (options.json) {
    terminal.out(stringifyJson({ before: { ...before }, after: { ...after }, changed }, 2));
    return 0;
  }
  const { green, dim } = terminal.colors;
  const rows = keys.map((key) => [key, String(before[key]), changed.includes(key) ? `→ ${after[key]}` : ""]);
  columns(rows).forEach((line, index) => {
    terminal.out(changed.includes(keys[index] ?? "strictAffinity") ? green(line) : line);
  });
  if (!isReading && changed.length === 0) terminal.out(dim("  nothing to change"));
  return 0;
}

function wantedChange(options: ConfigureOptions): Partial<IpamConfiguration> {
  const { strictAffinity, autoAllocateBlocks, maxBlocksPerHost, ipCooldownSeconds } = options;
  return {
    ...(strictAffinity === undefined ? {} : { strictAffinity }),
    ...(autoAllocateBlocks === undefined ? {} : { autoAllocateBlocks }),
    ...(maxBlocksPerHost === undefined ? {} : { maxBlocksPerHost }),
    ...(ipCooldownSeconds === undefined ? {} : { ipCooldownSeconds }),
  };
}

/** Writes only when something differs; what is judged is the whole, as it will be. */
async function change(datastore: Datastore, wanted: Partial<IpamConfiguration>, tries: number): Promise<Change> {
  const { ipamConfiguration } = datastore;
  const stored = await ipamConfiguration.get("default");
  const before = stored?.value ?? DEFAULT_CONFIGURATION;
  const after: IpamConfiguration = { ...before, ...wanted };
  if (Bun.deepEquals(before, after)) return { before, after: before };
  checkConfiguration(after);
  try {
    if (stored === undefined) await ipamConfiguration.create("default", after);
    else await ipamConfiguration.update("default", after, stored.revision);
    return { before, after };
  } catch (error) {
    if (tries <= 1 || !isDatastoreFailure(error, "conflict", "not-found", "already-exists")) throw error;
    return change(datastore, wanted, tries - 1);
  }
}

/** Is what both API groups accept. */
const MOST_BLOCKS = 1_000_000;
const LONGEST_COOLDOWN = 1200;

/** @throws TortieError `option-invalid` naming the options and the rule */
function checkConfiguration(configuration: IpamConfiguration): void {
  const { strictAffinity, autoAllocateBlocks, maxBlocksPerHost, ipCooldownSeconds } = configuration;
  checkRange("max-blocks-per-host", maxBlocksPerHost, MOST_BLOCKS);
  checkRange("ip-cooldown-seconds", ipCooldownSeconds, LONGEST_COOLDOWN);
  if (!strictAffinity && !autoAllocateBlocks) {
    throw new TortieError(
      "option-invalid",
      "--no-auto-allocate-blocks needs --strict-affinity: without blocks of its own a node could only borrow",
    );
  }
  if (maxBlocksPerHost > 0 && !strictAffinity) {
    throw new TortieError("option-invalid", "--max-blocks-per-host needs --strict-affinity: a node at its limit would borrow all the same");
  }
}

function checkRange(option: string, value: number, most: number): void {
  if (Number.isInteger(value) && value >= 0 && value <= most) return;
  throw new TortieError("option-invalid", `--${option} wants a whole number from 0 to ${most}`);
}
