import { isSubdomain } from "../../../../lib/system/subdomain.ts";

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
