import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { accessOf, groupNumber, mayCall } from "../../../../agent/api/socket.ts";
import { TemporaryDirectory } from "../../../support/fixtures.ts";

describe("Who may do what over the socket", () => {
  it.each([
    [{ uid: 0, gid: 0, groups: [] }, 7, "everything"],
    [{ uid: 5, gid: 7, groups: [] }, 7, "read"],
    [{ uid: 5, gid: 5, groups: [9, 7] }, 7, "read"],
    [{ uid: 5, gid: 5, groups: [9] }, 7, "nothing"],
    // Where the group is missing, nobody but root: no silent widening.
    [{ uid: 5, gid: 0, groups: [0] }, undefined, "nothing"],
  ] as const)("%j with the socket's group %j: %s", (peer, group, access) => {
    expect(accessOf(peer, group)).toBe(access);
  });

  it("readers may only read", () => {
    expect([mayCall("read", true), mayCall("read", false), mayCall("nothing", true), mayCall("everything", false)]).toEqual([
      true,
      false,
      false,
      true,
    ]);
  });

  it("finds the number of a group in /etc/group, and none where there is none", () => {
    using directory = new TemporaryDirectory();
    const file = join(directory.path, "group");
    writeFileSync(file, "root:x:0:\ntortie:x:994:alice,bob\nbroken:x:x:\n");
    expect(["tortie", "broken", "absent"].map((name) => groupNumber(name, file))).toEqual([994, undefined, undefined]);
    expect(groupNumber("tortie", join(directory.path, "absent"))).toBeUndefined();
  });
});
