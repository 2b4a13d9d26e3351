/** What every repair works with, and its possible outcomes. */
import type { Operation } from "../../ipam-plugin/allocator/operation.ts";
import type { Problem } from "../problem.ts";

/**
 * `mended`: the repair was written. `gone`: another process or another repair has solved the problem already.
 * `refused`: mending it would take something away that is in use, or the store went on changing.
 */
export type RepairOutcome = { readonly outcome: "mended" | "gone" } | { readonly outcome: "refused"; readonly reason: string };

export const MENDED: RepairOutcome = { outcome: "mended" };
export const GONE: RepairOutcome = { outcome: "gone" };
export function refused(reason: string): RepairOutcome {
  return { outcome: "refused", reason };
}

/** What each repair works with. */
export interface Repair {
  /** Of this try alone: the objects are read again for the next one. */
  readonly operation: Operation;
  readonly problem: Problem;
  readonly nowMs: number;
}
