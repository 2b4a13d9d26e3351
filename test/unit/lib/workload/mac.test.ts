import { isAssignableMac, parseMac } from "../../../../lib/workload/requested.ts";
import { words } from "../../../support/words.ts";

describe("parseMac", () => {
  it.each(["ca:fe:ca:fe:ca:fe", "CA-FE-CA-FE-CA-FE", "cafe.cafe.CAFE"])("reads %s (recordings hwaddr, hwaddr-uppercase-dashes)", (text) => {
    expect(parseMac(text)).toEqual({ mac: "ca:fe:ca:fe:ca:fe" });
  });

  it.each([
    "",
    "ca:fe:ca:fe:ca:fe ",
    "ca:fe:ca:fe:ca:fe\n",
    ...words`
      nonsense cafecafecafe ca:fe-ca:fe-ca:fe ca:fe:ca:fe:ca:f cafe:cafe:cafe ca.fe.ca.fe.ca.fe ca:fe:ca:fe:ca:fg
    `,
  ])("refuses %j", (text) => {
    expect(parseMac(text)).toEqual({ reason: "invalid MAC address" });
  });

  it.each([
    ["ca:fe:ca:fe:ca:fe:ca:fe", 8],
    ["cafe.cafe.cafe.cafe", 8],
    [Array(20).fill("ca").join("-"), 20],
    ["ca:fe", 2],
  ])("refuses %s, which has %i octets (recording hwaddr-eui64, a deliberate difference)", (text, octets) => {
    expect(parseMac(text)).toEqual({ reason: `invalid MAC address: ${octets} octets instead of 6` });
  });
});

describe("isAssignableMac", () => {
  it.each([
    ["02:00:00:00:00:01", true],
    ["ee:ee:ee:ee:ee:ee", true],
    ["00:00:00:00:00:01", true],
    ["00:00:00:00:00:00", false],
    ["01:00:5e:00:00:01", false],
    ["ff:ff:ff:ff:ff:ff", false],
  ])("%s: %s, as the kernel judges", (mac, expected) => {
    expect(isAssignableMac(mac)).toBe(expected);
  });
});
