/** Serves the history of attachments, of those that are gone too (handover/history.ts). */
import { HISTORY_EVENTS, type HistoryEntry, type HistoryQuery, MOST_HISTORY, readHistory } from "../../handover/history.ts";
import { formatAddress, parseAddress } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { type HandlersOf, model, type Operations, ref, type Static, Type, words } from "./operation.ts";

const HistoryStepModel = model("HistoryStep", "One step of an operation.", { name: Type.String(), milliseconds: Type.Number() });

export const HistoryEntryModel = model("HistoryEntry", "What happened to an attachment.", {
  time: Type.String({ description: "RFC 3339: when it began" }),
  event: words(...HISTORY_EVENTS),
  outcome: words("ok", "warning", "failed"),
  network: Type.Optional(Type.String()),
  "container-id": Type.Optional(Type.String()),
  ifname: Type.Optional(Type.String()),
  pod: Type.Optional(Type.String({ description: "NAMESPACE/NAME" })),
  addresses: Type.Array(Type.String()),
  since: Type.Optional(Type.String({ description: "RFC 3339: since when the attachment had its addresses" })),
  milliseconds: Type.Optional(Type.Number()),
  steps: Type.Array(ref(HistoryStepModel)),
  message: Type.Optional(Type.String()),
  word: Type.Optional(Type.String({ description: "Stable word of docs/reference/errors.md" })),
  next: Type.Optional(Type.String()),
});
export type HistoryEntryModel = Static<typeof HistoryEntryModel>;

const NAME = Type.String({ minLength: 1, maxLength: 600 });

export const HISTORY_OPERATIONS = {
  getHistory: {
    method: "GET",
    path: "/history",
    summary: "What happened to attachments, newest first, also to those that are gone; the oldest entries are dropped",
    query: Type.Object({
      address: Type.Optional(Type.String({ ...NAME, description: "Whoever had this address" })),
      pod: Type.Optional(Type.String({ ...NAME, description: "NAMESPACE/NAME" })),
      container: Type.Optional(Type.String({ ...NAME, description: "Container id, or how it begins" })),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MOST_HISTORY, description: `Default: ${MOST_HISTORY}` })),
    }),
    answers: { 200: Type.Array(ref(HistoryEntryModel)) },
  },
} as const satisfies Operations;

/** @param directory of the history's files */
export function historyHandlers(directory: string): HandlersOf<typeof HISTORY_OPERATIONS> {
  return {
    getHistory({ query: { address, ...query } }) {
      const asked: HistoryQuery = { ...query, ...(address !== undefined && { address: canonical(address) }) };
      return { status: 200, body: readHistory(directory, asked).map(entryModel) };
    },
  };
}

/** @throws TortieError `option-invalid` */
function canonical(text: string): string {
  const address = parseAddress(text);
  if (address === undefined) throw new TortieError("option-invalid", `address "${text}" is not an address`);
  return formatAddress(address);
}

function entryModel({ containerId, steps, addresses, ...entry }: HistoryEntry): HistoryEntryModel {
  return { ...entry, "container-id": containerId, steps: [...steps], addresses: [...addresses] };
}
