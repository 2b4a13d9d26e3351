/** Whose host end may be taken: what is written on it decides, and nothing else (M2). */
import { attachmentAlias } from "../../../../dataplane/alias.ts";
import { mayReplace } from "../../../../dataplane/linux/ends.ts";

const CART = { network: "net1", containerId: "new", ifname: "eth0", workload: "shop/cart" };
const PLAIN = { network: "net1", containerId: "new", ifname: "eth0" };

describe("a host end in the way of an attachment", () => {
  it.each([
    ["without an owner, as Calico leaves it, is replaced", "", CART, [], true],
    ["of this very attachment is replaced", attachmentAlias(PLAIN), PLAIN, [], true],
    ["of the same pod's older sandbox is replaced", attachmentAlias({ ...CART, containerId: "old" }), CART, [], true],
    [
      "of another pod is not, whatever the record names",
      attachmentAlias({ ...CART, containerId: "old", workload: "prod/db" }),
      CART,
      ["old"],
      false,
    ],
    ["that names no pod is replaced when the pod's record names its container", "tortie:net1/old/eth0", CART, ["old"], true],
    ["that names no pod is not when the record names another container", "tortie:net1/old/eth0", CART, ["other"], false],
    ["that names no pod is not when there is no record", "tortie:net1/old/eth0", CART, [], false],
    ["of another plain container is not, whatever the record names", "tortie:net1/old/eth0", PLAIN, ["old"], false],
    ["that somebody else has written on is not", "uplink of rack 7", CART, ["old"], false],
  ])("%s", (_, alias, owner, predecessors, expected) => {
    expect(mayReplace(alias, { owner, predecessors })).toBe(expected);
  });
});
