/**
 * Compares handles with blocks: a handle counts, for each block, the addresses that the block records for it (I§2.5, I§5.2). Where they
 * differ, the blocks decide.
 */
import { settle } from "../ipam-plugin/allocator/handle.ts";
import { releaseByHandle } from "../ipam-plugin/allocator/release-by-handle.ts";
import type { Versioned } from "../lib/datastore/datastore.ts";
import { type Handle, sanitised } from "../lib/datastore/resources.ts";
import { count, GONE, MENDED, type Problem, type ProblemKind, problem, type Repair, type RepairOutcome, type Subject } from "./problem.ts";
import { allocationsOf, type PlacedBlock, placedBlocks, textAt } from "./snapshot.ts";

/** Names the handle of ordinals that Windows nodes keep: it never has an object (I§2.5). */
export const WINDOWS_RESERVED_HANDLE = "windows-reserved-ipam-handle";

/** Holds the addresses of one handle in each block. */
type Held = ReadonlyMap<string, readonly string[]>;

const NOTHING: Held = new Map();

export function handleProblems(blocks: readonly PlacedBlock[], handles: readonly Versioned<Handle>[]): readonly Problem[] {
  const held = heldByHandle(blocks);
  const problems = handles.flatMap((handle) => ofHandle(handle, held.get(sanitised(handle.value.id)) ?? NOTHING));
  const known = new Set(handles.map(({ value }) => sanitised(value.id)));
  for (const [id, inBlocks] of held) if (!known.has(id)) problems.push(missing(id, inBlocks));
  return problems;
}

/** Collects, for each handle that blocks name, its addresses by block. */
function heldByHandle(blocks: readonly PlacedBlock[]): ReadonlyMap<string, Held> {
  const held = new Map<string, Map<string, string[]>>();
  for (const placed of blocks) {
    for (const { ordinal, attribute } of allocationsOf(placed)) {
      if (attribute.handleId === undefined || attribute.handleId.toLowerCase() === WINDOWS_RESERVED_HANDLE) continue;
      const id = sanitised(attribute.handleId);
      const inBlocks = held.getOrInsertComputed(id, () => new Map());
      inBlocks.getOrInsert(placed.block.cidr, []).push(textAt(placed, ordinal));
    }
  }
  return held;
}

function ofHandle({ value, revision }: Versioned<Handle>, held: Held): readonly Problem[] {
  const blocks = [...new Set([...Object.keys(value.blocks), ...held.keys()])];
  const found = (kind: ProblemKind, message: string, addresses: readonly string[] = [], where = "") =>
    problem(kind, {
      object: `handle ${value.id}${where}`,
      message,
      addresses,
      evidence: `${message} ${revision}`,
      subject: { type: "handle", id: value.id, blocks },
    });
  if (held.size === 0) {
    const counted = Object.entries(value.blocks).map(([cidr, number]) => `${number} in ${cidr}`);
    return [found("handle-orphan", `no block has an address of it${counted.length === 0 ? "" : ` (it counts ${counted.join(", ")})`}`)];
  }
  return blocks.flatMap((cidr) => {
    const counted = value.blocks[cidr] ?? 0;
    const addresses = held.get(cidr) ?? [];
    if (counted === addresses.length) return [];
    const message = `it counts ${count(counted, "address", "addresses")}, the block records ${addresses.length}`;
    return [found(counted > addresses.length ? "handle-count-high" : "handle-count-low", message, addresses, ` in block ${cidr}`)];
  });
}

function missing(id: string, held: Held): Problem {
  const addresses = [...held.values()].flat();
  return problem("handle-missing", {
    object: `handle ${id}`,
    message: `${count(addresses.length, "address", "addresses")} recorded for it in ${[...held.keys()].join(", ")}, but there is no such handle: no DEL finds them`,
    addresses,
    subject: { type: "handle", id, blocks: [...held.keys()] },
  });
}

const NO_ALLOCATION: ReadonlySet<bigint> = new Set();

/** Tells whether the handle counts more than there is, so that a release of nothing mends it. */
export function isOnlyCounted(kind: ProblemKind): boolean {
  return kind === "handle-orphan" || kind === "handle-count-high";
}

/** Lowers counts to what the blocks record; a handle that is left with none goes. */
export async function lowerCounts({ operation }: Repair, id: string): Promise<RepairOutcome> {
  const { found } = await releaseByHandle(operation, { handle: id, sequenceNumbers: NO_ALLOCATION });
  return found ? MENDED : GONE;
}

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
  return MENDED;
}
