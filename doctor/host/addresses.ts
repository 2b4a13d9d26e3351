/** Judges the addresses of the datastore that this host's list names: whether the next pod gets one, and whether what is stored agrees. */
import { isAttachmentAlias } from "../../dataplane/alias.ts";
import { createIpamHost, systemClock } from "../../ipam-plugin/host.ts";
import type { Finding as Shortage } from "../../ipam-plugin/status.ts";
import { type Address, bitsOf, formatAddress } from "../../lib/addresses/address.ts";
import { chooseDatastore } from "../../lib/config/datastore-choice.ts";
import type { Datastore } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { isThere } from "../../lib/system/files.ts";
import { check } from "../check.ts";
import { abridged } from "../checks.ts";
import { nextStep, type Problem } from "../problem.ts";
import { type Finding, failed, skipped, warned, well } from "../report.ts";
import type { HostView } from "./view.ts";

/** Gives operations under way the time to end before what was found is looked at again; as long as `tortiectl ipam check` gives them. */
const SETTLE_MS = 2_000;
const GRACE_MS = 60_000;

const SHORTAGES: Readonly<Record<Shortage["kind"], { readonly word: string; readonly next: string }>> = {
  "pool-missing": { word: "pool-missing", next: "make a pool of that family, or enable one (docs/explanation/ipam.md)" },
  exhausted: { word: "addresses-exhausted", next: "add a pool, or find addresses to release: tortiectl ipam show --blocks" },
  paused: { word: "cluster-not-ready", next: "end the upgrade or migration that has paused it: see kubectl get clusterinformations" },
  unreachable: { word: "datastore-unavailable", next: "make the datastore that the message names reachable, then try again" },
};

export async function pools(view: HostView): Promise<readonly Finding[]> {
  const { datastore, config, file } = await view.store();
  const found = await view.shortages();
  if (found === undefined) return [skipped(file, `addresses come from ${config.ipam.type || "nobody"}`)];
  if (found.length === 0) return [well(datastore.description, "the next pod gets an address")];
  return found.map(({ kind, message, error }) => failed(datastore.description, message, error ?? SHORTAGES[kind]));
}

export async function stored(view: HostView): Promise<readonly Finding[]> {
  const { datastore, unreadable } = await view.store();
  const found = await view.shortages();
  // Waits no second time for a server that is away.
  if (found?.some(({ kind }) => kind === "unreachable")) return [skipped(datastore.description, "it does not answer, as pools says")];
  try {
    return await judgeStore(datastore, unreadable);
  } catch (error) {
    if (!isDatastoreFailure(error, "unauthorized")) throw error;
    return [skipped(datastore.description, "the plugins' account may not list what is compared: tortiectl doctor --cluster does")];
  }
}

/** Address that a host route leads to, and the host end of an attachment that it leads through. */
export interface RoutedAddress {
  readonly end: string;
  readonly address: Address;
}

/** Compares the routes of pods with the grants of the local store, which may have been lost under running pods. */
export async function grants(view: HostView): Promise<readonly Finding[]> {
  const own = view.ownList();
  const isLocal = own !== undefined && chooseDatastore(own.config, view.options.env) === "local";
  if (!isLocal || !["tortie-ipam", "calico-ipam"].includes(own.config.ipam.type)) {
    return [skipped("interfaces of pods", "no local store of this host's list grants addresses")];
  }
  const { datastorePath } = own.config;
  const names = new Map(view.links().flatMap(({ index, name, alias }) => (isAttachmentAlias(alias) ? [[index, name]] : [])));
  const routed = view.routes().flatMap(({ index, destination: { address, length } }) => {
    const end = names.get(index);
    return end === undefined || length !== bitsOf(address.family) ? [] : [{ end, address }];
  });
  const granted = isThere(datastorePath) ? await grantedOf(routed, (await view.store()).datastore) : new Set<string>();
  return judgeGrants(routed, granted, datastorePath);
}

/** @returns the granted ones of the addresses, as text */
async function grantedOf(routed: readonly RoutedAddress[], datastore: Datastore): Promise<ReadonlySet<string>> {
  const { allocator } = createIpamHost({ datastore, log: { error() {} } });
  const granted = new Set<string>();
  for (const { address } of routed) {
    try {
      if ((await allocator.attributesOf(address)) !== undefined) granted.add(formatAddress(address));
    } catch (error) {
      if (!(error instanceof TortieError) || error.word !== "address-outside-pools") throw error;
    }
  }
  return granted;
}

/** @param granted addresses of the store, as text */
export function judgeGrants(routed: readonly RoutedAddress[], granted: ReadonlySet<string>, store: string): readonly Finding[] {
  const lost = routed.filter(({ address }) => !granted.has(formatAddress(address)));
  if (lost.length === 0) return [well(store, "it grants every address that a route of a pod leads to")];
  const next = "stop the container and start it again, or put a backup of the store in its place (docs/explanation/datastores.md)";
  const found = lost.map(({ end, address }) => {
    const message = `its address ${formatAddress(address)} is not granted by ${store}: an ADD that is given it fails`;
    return failed(`interface ${end}`, message, { word: "address-not-assigned", next });
  });
  return abridged(found, "interfaces of pods");
}

/** Compares blocks, affinities, handles and endpoints, as `tortiectl ipam check` does. @param unreadable what lists had to leave out */
export async function judgeStore(datastore: Datastore, unreadable: ReadonlySet<string>): Promise<readonly Finding[]> {
  const options = { nowMs: systemClock.nowMs, graceMs: GRACE_MS, isStrict: false, pause: () => Bun.sleep(SETTLE_MS) };
  const problems = (await check(datastore, options)).map(findingOf);
  const damaged = [...unreadable].map((message) =>
    failed(datastore.description, message, { word: "datastore-object-invalid", next: "correct or remove that object by hand" }),
  );
  if (problems.length + damaged.length === 0) return [well(datastore.description, "blocks, affinities, handles and endpoints agree")];
  return abridged([...damaged, ...problems], datastore.description);
}

/** Says what `tortiectl ipam check` finds as a check's finding. */
export function findingOf(problem: Problem): Finding {
  const { kind, object, message, severity } = problem;
  return (severity === "note" ? warned : failed)(object, message, { word: kind, next: nextStep(problem) });
}
