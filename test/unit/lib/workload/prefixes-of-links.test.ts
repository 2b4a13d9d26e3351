import { guardedPrefixes, prefixesOfLinks } from "../../../../lib/workload/names.ts";

describe("The prefixes of guarded links", () => {
  it("seven:2: have both forms of link and the configured one", () => {
    expect(guardedPrefixes("eni")).toEqual(["cali", "lxc", "eni"]);
    expect(guardedPrefixes("eni", ["cali01234567890", "azv01234567890"])).toEqual(["cali", "lxc", "eni", "azv"]);
  });

  it("S15: have those of links that are there, whatever the agent's own list says", () => {
    expect(prefixesOfLinks(["cali01234567890", "azv01234567890", "azvabcdefabcde"], ["cali", "lxc"])).toEqual(["azv"]);
  });
});
