/** A handle whose counts differ from its blocks: the blocks decide (I§5.2). */
import { settle } from "../../ipam-plugin/allocator/handle.ts";
import type { Subject } from "../problem.ts";
import { handleProblems } from "../rules/handle-rules.ts";
import { placedBlocks } from "../snapshot.ts";
import { GONE, MENDED, type Repair, type RepairOutcome } from "./repair-outcome.ts";

export async function repairHandle(
  { operation, problem }: Repair,
  { id, blocks: seen }: Extract<Subject, { type: "handle" }>,
): Promise<RepairOutcome> {
  const { handles, blocks } = operation.datastore;
  // The handle is read first: a grant raises it before it writes the block, so every later grant changes its revision.
  const stored = await handles.get(id);
  const cidrs = [...new Set([...seen, ...Object.keys(stored?.value.blocks ?? {})])];
  const read = (await Promise.all(cidrs.map((cidr) => blocks.get(cidr)))).flatMap((block) => block ?? []);
  const now = handleProblems(placedBlocks(read), stored === undefined ? [] : [stored]);
  if (!now.some((other) => other.id === problem.id)) return GONE;

  for (const cidr of cidrs) await settle(operation, id, cidr);
  const settled = await handles.get(id);
  // A handle that counts nothing, or only zeros, stays behind when counts agree (recording handle-zero-in-block).
  if (settled !== undefined && Object.values(settled.value.blocks).every((count) => count <= 0)) await handles.delete(id, settled.revision);
  return MENDED;
}
