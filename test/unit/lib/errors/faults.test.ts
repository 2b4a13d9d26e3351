import { NetlinkError } from "../../../../dataplane/netlink/message.ts";
import { renderError } from "../../../../lib/cni/error-output.ts";
import { namingFault, TortieError } from "../../../../lib/errors/errors.ts";
import { SystemError } from "../../../../lib/system/files.ts";

const EPERM = 1;
const ENOENT = 2;
const EACCES = 13;
const NOBODY = 65534;

function damaged(errno: number): TortieError {
  const cause = new Error("the result", { cause: new SystemError("open", "/a", errno) });
  return new TortieError("cache-damaged", "/a cannot be read", { cause, details: "more" });
}

describe("W3: an error that a want of privilege caused", () => {
  it.each([
    ["EPERM", EPERM, NOBODY],
    ["EACCES", EACCES, NOBODY],
    ["EPERM", EPERM, 0],
  ])("is %s (%d) of user %d, anywhere among the causes, and keeps its text", (_name, errno, user) => {
    expect(namingFault(damaged(errno), user)).toMatchObject({
      word: "privilege-missing",
      message: "/a cannot be read",
      details: "more",
      next: expect.stringContaining("root"),
    });
    expect(namingFault(new SystemError("open", "/a", errno), user)).toMatchObject({ word: "privilege-missing" });
  });

  it("is known by the number alone, too", () => {
    expect(namingFault(Object.assign(new Error("x"), { errno: -EPERM }), 0)).toMatchObject({ word: "privilege-missing" });
  });

  it("is not EACCES of root, another failure, or one that is named already", () => {
    const [ofRoot, missing] = [damaged(EACCES), damaged(ENOENT)];
    expect(namingFault(ofRoot, 0)).toBe(ofRoot);
    expect(namingFault(missing, NOBODY)).toBe(missing);
    const named = namingFault(damaged(EPERM), NOBODY);
    expect(namingFault(named, NOBODY)).toBe(named);
    expect(namingFault("text", NOBODY)).toBe("text");
  });

  it("ends where causes lead in a circle", () => {
    const circle = new Error("round");
    circle.cause = circle;
    expect(namingFault(circle, NOBODY)).toBe(circle);
  });
});

describe("an error that the process or the host caused", () => {
  it.each([
    ["ENOSPC", 28, "disk-full"],
    ["EDQUOT", 122, "disk-full"],
    ["EROFS", 30, "file-system-read-only"],
    ["EMFILE", 24, "descriptors-exhausted"],
    ["ENFILE", 23, "descriptors-exhausted"],
  ])("has a word of its own instead of being a defect: %s", (_, errno, word) => {
    const error = new SystemError("open", "/run/tortie/x", errno);
    for (const each of [error, new Error("around", { cause: error })])
      expect(namingFault(each, 0)).toMatchObject({ word, message: each.message });
    expect(JSON.parse(renderError(error))).toMatchObject({
      msg: expect.stringContaining("/run/tortie/x"),
      details: expect.stringContaining(`${word}: `),
    });
  });

  it("replaces the word of the layers above for want of descriptors, not for want of room", () => {
    expect(namingFault(damaged(24), 0)).toMatchObject({ word: "descriptors-exhausted", message: "/a cannot be read", details: "more" });
    expect(namingFault(damaged(28), 0)).toMatchObject({ word: "cache-damaged" });
    expect(namingFault(damaged(30), 0)).toMatchObject({ word: "cache-damaged" });
  });

  it("is not the kernel's ENOSPC over netlink", () => {
    const refused = new NetlinkError(28);
    expect(namingFault(refused, 0)).toBe(refused);
    expect(namingFault(new NetlinkError(24), 0)).toMatchObject({ word: "descriptors-exhausted" });
  });
});
