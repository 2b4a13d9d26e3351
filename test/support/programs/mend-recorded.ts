/** Mends the link of a record by hand, in the namespace of a node, with a store that says what the test wants to hear. */

import { mendLink } from "../../../agent/endpoints/mend-link.ts";
import { LinuxDataplane } from "../../../dataplane/linux/linux-dataplane.ts";
import { HostSockets } from "../../../dataplane/netlink/host-sockets.ts";
import type { RecordedAddress } from "../../../handover/record.ts";
import { formatAddress } from "../../../lib/addresses/address.ts";
import { Sandbox, seenOf } from "../../../lib/system/sandbox.ts";
import { recordOf } from "../endpoint-record.ts";
import type { StateInSandbox } from "./dataplane-by-path.ts";

export type Word = "granted" | "lost" | "unreachable";

export interface MendedRecord {
  /** Addresses that the store was asked about. */
  readonly asked: readonly string[];
  readonly notes: readonly string[];
}

/** @param grant who gave the addresses of the record @param hostIndex of the host end */
export async function mendRecorded(
  { sandbox: path, ...desired }: StateInSandbox,
  grant: RecordedAddress["grant"],
  word: Word,
  hostIndex: number,
): Promise<MendedRecord> {
  using host = new HostSockets();
  using sandbox = Sandbox.named(path);
  const asked: string[] = [];
  const notes: string[] = [];
  const addresses = desired.pod.addresses.map(
    ({ address }): RecordedAddress => ({ address: formatAddress(address), family: address.family, grant }),
  );
  const grants = {
    isGranted: async (_: unknown, { address }: RecordedAddress) => {
      asked.push(address);
      if (word === "unreachable") throw new Error("the store does not answer");
      return word === "granted";
    },
  };
  await mendLink(
    {
      record: recordOf(4, {
        desired,
        netns: seenOf(sandbox),
        addresses,
        hostInterface: { name: desired.host.name, alias: "", index: hostIndex },
      }),
      state: "regenerating",
      transition: () => true,
      note: (_, __, message) => notes.push(message),
      write: (record) => record,
    },
    { dataplane: new LinuxDataplane(host), grants, hold: async () => ({ [Symbol.dispose]: () => {} }) },
    new AbortController().signal,
  );
  return { asked, notes };
}
