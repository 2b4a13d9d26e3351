/**
 * What calls of plugins have answered, per attachment: pure bookkeeping. The judge learns from it which attachments must have left nothing:
 * those whose DEL succeeded, and those whose only ADD failed (design, invariant 5).
 */

/** An attachment as a runtime names it. */
export interface Attachment {
  readonly network: string;
  readonly containerId: string;
  readonly ifname: string;
}

/** One call; its answer is not there yet. */
export interface LedgerCall extends Attachment {
  readonly verb: string;
}

/** "open": nobody can tell, as after a call that was killed, or two at once. */
type State = "has" | "ended" | "open";

interface Page extends Attachment {
  state: State;
  /** Calls without answer. */
  running: number;
  /** Two of them ran at once, and the last of them has no answer yet. */
  isCrowded: boolean;
}

export class Ledger {
  readonly #pages = new Map<string, Page>();

  /** Nobody has called. */
  get isEmpty(): boolean {
    return this.#pages.size === 0;
  }

  /** @returns what takes the answer: true for success, false for a refusal, nothing when the call came to no end */
  begin({ verb, network, containerId, ifname }: LedgerCall): (isSuccess?: boolean) => void {
    if (verb === "GC") return () => this.#collected(network);
    if (verb !== "ADD" && verb !== "DEL") return () => undefined;
    const key = `${network}/${containerId}/${ifname}`;
    const page = this.#pages.get(key) ?? { network, containerId, ifname, state: "ended", running: 0, isCrowded: false };
    this.#pages.set(key, page);
    const before = page.state;
    page.isCrowded ||= page.running > 0;
    page.running++;
    page.state = "open";
    return (isSuccess) => {
      page.running--;
      page.state = page.isCrowded ? "open" : stateAfter(verb, before, isSuccess);
      page.isCrowded &&= page.running > 0;
    };
  }

  /** Attachments of which nothing may be there any more. */
  ended(): readonly Attachment[] {
    return [...this.#pages.values()].filter(({ state }) => state === "ended");
  }

  /** Which ones a GC has removed is not for us to say. */
  #collected(network: string): void {
    for (const page of this.#pages.values()) if (page.network === network && page.state === "has") page.state = "open";
  }
}

function stateAfter(verb: "ADD" | "DEL", before: State, isSuccess: boolean | undefined): State {
  if (isSuccess === undefined) return "open";
  if (isSuccess) return verb === "ADD" ? "has" : "ended";
  // A repeated ADD that fails leaves what was there; a DEL that fails is repeated.
  return verb === "ADD" && before === "ended" ? "ended" : "open";
}
