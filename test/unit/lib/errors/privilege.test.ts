import { namingPrivilege, TortieError } from "../../../../lib/errors/errors.ts";
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
    expect(namingPrivilege(damaged(errno), user)).toMatchObject({
      word: "privilege-missing",
      message: "/a cannot be read",
      details: "more",
      next: expect.stringContaining("root"),
    });
    expect(namingPrivilege(new SystemError("open", "/a", errno), user)).toMatchObject({ word: "privilege-missing" });
  });

  it("is known by the number alone, too", () => {
    expect(namingPrivilege(Object.assign(new Error("x"), { errno: -EPERM }), 0)).toMatchObject({ word: "privilege-missing" });
  });

  it("is not EACCES of root, another failure, or one that is named already", () => {
    const [ofRoot, missing] = [damaged(EACCES), damaged(ENOENT)];
    expect(namingPrivilege(ofRoot, 0)).toBe(ofRoot);
    expect(namingPrivilege(missing, NOBODY)).toBe(missing);
    const named = namingPrivilege(damaged(EPERM), NOBODY);
    expect(namingPrivilege(named, NOBODY)).toBe(named);
    expect(namingPrivilege("text", NOBODY)).toBe("text");
  });

  it("ends where causes lead in a circle", () => {
    const circle = new Error("round");
    circle.cause = circle;
    expect(namingPrivilege(circle, NOBODY)).toBe(circle);
  });
});
