import { encodeAttributes, u32 } from "../../../../dataplane/netlink/message.ts";
import { namespaceIdOf } from "../../../../dataplane/rtnetlink/link.ts";
import { Peer } from "../../../support/netlink-peer.ts";

const [RTM_NEWNSID, NETNSA_NSID] = [88, 1];

it.each([
  ["7", 7, 7],
  ["-1, which is no number", 0xffff_ffff, undefined],
])("The number of a namespace is what the kernel says: %s", (_, said, id) => {
  using kernel = new Peer();
  kernel.says(kernel.next, RTM_NEWNSID, Uint8Array.of(0, 0, 0, 0, ...encodeAttributes([u32(NETNSA_NSID, said)])));
  kernel.acknowledges(kernel.next, 0);
  expect(namespaceIdOf(kernel.socket, 3)).toBe(id);
});
