/** Whether another node has addresses of a range that this one made up (A§1.4). Pure. */
import { covers, formatPrefix, type Prefix, parsePrefix } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { rangeAnnotation } from "./annotations.ts";
import type { NodeFacts } from "./node-facts.ts";

/** @throws TortieError `range-overlap` naming the other node */
export function refuseOverlap(range: Prefix, self: string, nodes: readonly NodeFacts[]): void {
  for (const node of nodes) {
    if (node.name === self) continue;
    const other = rangesOf(node).find((one) => covers(one, range) || covers(range, one));
    if (other === undefined) continue;
    throw new TortieError(
      "range-overlap",
      `automatic range ${formatPrefix(range)} overlaps with ${formatPrefix(other)} of node ${node.name}`,
    );
  }
}

function rangesOf({ podCIDRs, podCIDR, annotations }: NodeFacts): readonly Prefix[] {
  const texts = [...podCIDRs, podCIDR, annotations[rangeAnnotation(4)] ?? "", annotations[rangeAnnotation(6)] ?? ""];
  return texts.flatMap((text) => parsePrefix(text) ?? []);
}
