/**
 * The builds at the end of a restore (A§7.3): each endpoint once, a few at a time, behind whatever else the agent does. One that fails
 * stays as the kernel has it and is tried again by itself.
 */
import type { Clock } from "../../lib/system/clock.ts";
import type { Endpoint } from "../endpoints/endpoint.ts";
import { type EndpointManager, RESTORE_BUILD } from "../endpoints/manager.ts";
import type { LocalReport } from "./local-part.ts";

export interface BuildRestoredOptions {
  readonly clock: Clock;
  /** Attachments that direct mode left, taken over beside these. */
  readonly adopted?: number;
  readonly log: { info(message: string, fields?: Readonly<Record<string, unknown>>): void };
}

/** @returns how many builds succeeded at once */
export async function buildRestored(
  endpoints: Pick<EndpointManager, "get">,
  { ready, milliseconds: local, read, undone, deleting, waiting, bad }: LocalReport,
  { clock, log, adopted = 0 }: BuildRestoredOptions,
): Promise<number> {
  const begun = clock.now();
  const outcomes = await Promise.allSettled(
    // Removed meanwhile: its restore ends quietly.
    ready.filter((endpoint: Endpoint) => endpoints.get(endpoint.id) === endpoint).map(({ builds }) => builds.build(RESTORE_BUILD)),
  );
  const built = outcomes.filter(({ status }) => status === "fulfilled").length;
  const numbers = { read, ready: ready.length, undone, deleting, adopted, waiting, bad, built, failed: outcomes.length - built };
  log.info("restored", { ...numbers, localMilliseconds: Math.round(local), buildMilliseconds: Math.round(clock.now() - begun) });
  return built;
}
