import ipaddr from "ipaddr.js";
import { formatAddress, parseAddress } from "../../../../lib/addresses/address.ts";
import { seededRandom } from "../../../support/seeded-random.ts";
import { words } from "../../../support/words.ts";

describe("Address text", () => {
  it("is read and written as ipaddr.js does, for random IPv6 addresses with many zero groups", () => {
    const random = seededRandom(1);
    for (let i = 0; i < 5000; i++) {
      const bytes = Array.from({ length: 16 }, (_, at) => (random() < 0.6 || (at < 2 && i % 7 === 0) ? 0 : Math.floor(random() * 256)));
      const judge = new ipaddr.IPv6(bytes);
      if (judge.isIPv4MappedAddress()) continue;
      const parsed = parseAddress(judge.toNormalizedString());
      expect(parsed).toEqual({ family: 6, value: BigInt(`0x${Buffer.from(bytes).toString("hex")}`) });
      expect(parsed && formatAddress(parsed)).toBe(judge.toRFC5952String());
      expect(parseAddress(judge.toRFC5952String())).toEqual(parsed);
    }
  });

  it.each([
    ["::", "::"],
    ["::1", "::1"],
    ["1::", "1::"],
    ["0:0:1:0:0:0:1:0", "0:0:1::1:0"],
    ["1:0:0:2:0:0:3:4", "1::2:0:0:3:4"],
    ["1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"],
    ["FE80::ECEE:EEFF:FEEE:EEEE", "fe80::ecee:eeff:feee:eeee"],
    ["fd00::0005", "fd00::5"],
    ["::10.0.0.1", "::a00:1"],
    ["64:ff9b::192.0.2.1", "64:ff9b::c000:201"],
    ["::ffff:10.40.0.9", "10.40.0.9"],
    ["0.0.0.0", "0.0.0.0"],
    ["255.255.255.255", "255.255.255.255"],
  ])("%s is %s in canonical form", (text, canonical) => {
    const address = parseAddress(text);
    expect(address && formatAddress(address)).toBe(canonical);
  });

  it.each([
    "",
    " ",
    "10.0.0.1 ",
    ...words`
      10.0.0 10.0.0.1.2 10.0.0.256 10.40.0.09 0x0a.0.0.1 1e1.0.0.0 : ::: 1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 1::2::3
      1:2:3:4:5:6:7::8 12345:: fe80::1%eth0 ::10.0.0 ::10.0.0.1:2 10.0.0.1:: g:: 1:2:3:4:5:6:7: ::ffff:10.0.0.256
    `,
  ])("%j is no address", (text) => {
    expect(parseAddress(text)).toBeUndefined();
  });
});
