/**
 * When two error texts say the same thing. Calico prints Go's type names and library texts; ours name the key or the object and must
 * keep Calico's recognisable fragments. An entry gives the fragments that both sides must have for one meaning.
 */
import { ERRORS } from "../../lib/errors.ts";

interface Meaning {
  readonly recorded: RegExp;
  /** May use $1, $2 …: what the groups of `recorded` caught, which our text must hold too. */
  readonly ours: string;
}

const MEANINGS: readonly Meaning[] = [];

export function haveSameMeaning(recorded: string, ours: string): boolean {
  if (recorded === ours) return true;
  return MEANINGS.some((meaning) => {
    const found = meaning.recorded.exec(recorded);
    if (found === null) return false;
    const wanted = meaning.ours.replace(/\$(\d)/g, (_, group: string) => escape(found[Number(group)] ?? ""));
    return new RegExp(wanted, "s").test(ours);
  });
}

function escape(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** `details` as Calico would have printed them: our word and next step, which stand behind, are taken off (C§10). */
export function withoutNextStep(details: string): string {
  const words = Object.keys(ERRORS).join("|");
  return details.replace(new RegExp(`(?:^|[;.,]?\\s+)(?:${words}): .*$`, "s"), "");
}
