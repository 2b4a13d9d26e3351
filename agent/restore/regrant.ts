/**
 * Addresses of the host scope that restored endpoints have and no file grants (A§7.3 step 7): a lost file is written again before
 * addresses can be requested. An address that has another holder by now stays with that one and is reported while the endpoint exists.
 */

import { type EndpointRecord, isCommitted, type RecordedAddress } from "../../handover/record.ts";
import { type AttachmentOwner, type GrantFile, isSameOwner, ownerKey } from "../../ipam-plugin/host-scope/grant-directory.ts";
import type { GrantFiles } from "../../ipam-plugin/host-scope/grant-files.ts";
import { parseAddress } from "../../lib/addresses/address.ts";
import { messageOf } from "../../lib/errors/errors.ts";

export interface RegrantOptions {
  readonly records: readonly EndpointRecord[];
  readonly files: Pick<GrantFiles, "create" | "read">;
  readonly nowMs: () => number;
  readonly onRegranted: (record: EndpointRecord, address: string) => void;
  /** An address of the endpoint that it cannot be proved to hold, in words. */
  readonly onConflict: (record: EndpointRecord, address: string, problem: string) => void;
}

/** Goes on after failures: each is a conflict, since the holder of the address is unknown. */
export async function regrant({ records, files, nowMs, onRegranted, onConflict }: RegrantOptions): Promise<void> {
  for (const record of records.filter(isCommitted)) {
    for (const recorded of record.addresses.filter(({ grant }) => grant === "file")) {
      try {
        const outcome = await regrantOne(record, recorded, files, nowMs());
        if (outcome.isNew) onRegranted(record, recorded.address);
        if (outcome.holder !== undefined) onConflict(record, recorded.address, `it is granted to ${ownerKey(outcome.holder.owner)}`);
      } catch (error) {
        onConflict(record, recorded.address, `its grant can be neither read nor made: ${messageOf(error)}`);
      }
    }
  }
}

interface Outcome {
  readonly isNew: boolean;
  /** Somebody else. */
  readonly holder: GrantFile | undefined;
}

/** @throws Error */
async function regrantOne(
  record: EndpointRecord,
  { address: text, token }: RecordedAddress,
  files: RegrantOptions["files"],
  grantedAtMs: number,
): Promise<Outcome> {
  const address = parseAddress(text);
  if (address === undefined) throw new Error(`${text} is no address`);
  const { network, containerId, ifname } = record.attachment;
  const pod = record.pod === undefined ? {} : { pod: record.pod };
  const owner: AttachmentOwner = { kind: "attachment", network, containerId, ifname, ...pod };
  // A registered endpoint's address is released by its token, a container's by the attachment.
  const made: GrantFile = { owner, token: token ?? crypto.randomUUID(), grantedAtMs, endpoint: record.id };
  if (await files.create(address, made)) return { isNew: true, holder: undefined };
  // A file that cannot be read keeps the address granted, to an unknown holder.
  const found = (await files.read(address))?.grant;
  const isTheirs = found === undefined || found.token === token || isSameOwner(found.owner, owner);
  return { isNew: false, holder: isTheirs ? undefined : found };
}
