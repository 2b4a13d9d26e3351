/** Judges the addresses of the datastore that this host's list names: whether the next pod gets one, and whether what is stored agrees. */
import { systemClock } from "../../ipam-plugin/host.ts";
import type { Finding as Shortage } from "../../ipam-plugin/status.ts";
import type { Datastore } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
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
