/**
 * The attachments that a runtime still knows when it calls GC. The specification and libcni's early versions name the key differently,
 * so libcni writes both; and its list of a node without containers is `null` (containernetworking/cni #1101, #1103).
 */
import type { ValidAttachment } from "../cni/protocol.ts";
import { TortieError } from "../errors/errors.ts";
import { type Codec, type Decoded, list, record, text } from "./codec.ts";
import type { NetworkConfig } from "./network-config.ts";

const attachment = record({ containerID: text, ifname: text });

const attachments = list(attachment, "a list of objects", { containerID: undefined, ifname: undefined });

/** A key that is there with `null` is an empty list: a codec is only asked about keys that are there. */
export const attachmentsSchema: Codec<readonly Decoded<typeof attachment>[]> = {
  ...attachments,
  decode: (found) => attachments.decode(found) ?? [],
};

type Given = Decoded<typeof attachmentsSchema> | undefined;

/** What either key lists; `undefined` when neither is there. */
export function validAttachments(...given: readonly Given[]): readonly ValidAttachment[] | undefined {
  if (given.every((listed) => listed === undefined)) return undefined;
  return given
    .flatMap((listed) => listed ?? [])
    .map(({ containerID, ifname }) => ({ containerID: containerID ?? "", ifname: ifname ?? "" }));
}

/**
 * The attachments that GC leaves alone.
 *
 * @throws TortieError `attachments-missing`: an absent list is no empty one, it would cost every container its network
 */
export function attachmentsToKeep({ validAttachments: listed }: Pick<NetworkConfig, "validAttachments">): readonly ValidAttachment[] {
  if (listed !== undefined) return listed;
  throw new TortieError(
    "attachments-missing",
    'GC needs the key "cni.dev/valid-attachments" or "cni.dev/attachments": without them every container would lose its network and addresses',
  );
}
