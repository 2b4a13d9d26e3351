import {
  consistsOf,
  isDigit,
  isLetterOrDigit,
  isLowerCaseLetter,
  isNameCharacter,
  isSubdomain,
  isVisible,
} from "../../../../lib/system/characters.ts";

const CODES = Array.from({ length: 0x300 }, (_, code) => code);

describe("sets of characters", () => {
  it.each([
    ["digits", isDigit, /^[0-9]$/],
    ["lower-case letters", isLowerCaseLetter, /^[a-z]$/],
    ["letters and digits", isLetterOrDigit, /^[A-Za-z0-9]$/],
    ["the characters of CNI names", isNameCharacter, /^[A-Za-z0-9_.-]$/],
    ["visible ASCII", isVisible, /^[!-~]$/],
  ] as const)("%s are those that the regular expression accepts", (_, isInSet, expression) => {
    expect(CODES.filter(isInSet)).toEqual(CODES.filter((code) => expression.test(String.fromCharCode(code))));
  });

  it("a text consists of characters when every one of them is in the set", () => {
    expect(consistsOf("0123", isDigit)).toBe(true);
    expect(consistsOf("012x", isDigit)).toBe(false);
    expect(consistsOf("", isDigit)).toBe(true);
  });
});

describe("isSubdomain", () => {
  it.each(["a", "0", "a-b.c", "10-244-0-0-16", "node-1.example.com", "a--b", "a".repeat(253)])("takes %j", (name) => {
    expect(isSubdomain(name)).toBe(true);
  });

  it.each(["", ".", "..", "a.", ".a", "a..b", "a/b", "-a", "a-", "a.-b", "a-.b", "A", "a_b", "a b", "é", "ä", "a\n", "a".repeat(254)])(
    "refuses %j",
    (name) => {
      expect(isSubdomain(name)).toBe(false);
    },
  );
});
