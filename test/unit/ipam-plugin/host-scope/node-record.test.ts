/** The node's record as a file: what is written is read again, and what cannot be read is refused with a reason. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  encodeNodeRecord,
  familyOf,
  type NodeRecord,
  rangesOf,
  readNodeRecord,
  routersOf,
} from "../../../../ipam-plugin/host-scope/node-record.ts";
import { formatAddress } from "../../../../lib/addresses/address.ts";
import { address, prefix } from "../../../support/addresses.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const IPV4 = { cidr: prefix("10.60.0.0/24"), source: "flag", router: address("10.60.0.1"), health: address("10.60.0.2") } as const;
const IPV6 = { cidr: prefix("fd60::/120"), source: "spec", router: address("fd60::1") } as const;
const RECORD: NodeRecord = {
  node: "node-a",
  bootId: "boot",
  ipv4: IPV4,
  ipv6: IPV6,
  exclusions: [{ prefix: prefix("10.60.0.8/29"), reason: "route" }],
  strategy: "contiguous",
  cooldownMs: 30_000,
};

const directory = fresh(() => new TemporaryDirectory());

function written(text: string): string {
  const path = join(directory.path, "node.json");
  writeFileSync(path, text);
  return path;
}

describe("The record of a node", () => {
  it("is read as it was written, with each family that it has", () => {
    const { ipv4: _, ...onlyIpv6 } = RECORD;
    for (const record of [RECORD, onlyIpv6]) expect(readNodeRecord(written(encodeNodeRecord(record)))).toEqual(record);
    expect([familyOf(RECORD, 4), familyOf(RECORD, 6), familyOf(onlyIpv6, 4)]).toEqual([IPV4, IPV6, undefined]);
  });

  it("is none before it is written, and is refused where it cannot be read", () => {
    expect(readNodeRecord(join(directory.path, "nothing"))).toBeUndefined();
    expect(() => readNodeRecord(directory.path)).toThrow(expect.objectContaining({ word: "node-cidr-missing" }));
    const good = encodeNodeRecord(RECORD);
    for (const [text, message] of [
      ["{", "cannot be read"],
      [good.replace('"format":1', '"format":2'), "format 2 is not 1"],
      [good.replace("10.60.0.0/24", "10.60.0.0"), "cidr is no CIDR"],
      [good.replace('"10.60.0.1"', '"router"'), "router is no address"],
      [good.replace('"10.60.0.2"', '"health"'), "health is no address"],
    ] as const) {
      expect(() => readNodeRecord(written(text))).toThrow(
        expect.objectContaining({ word: "node-cidr-missing", message: expect.stringContaining(message) }),
      );
    }
  });

  it("names the routers of its families, of which there must be one", () => {
    const routers = (record: NodeRecord) => routersOf(written(encodeNodeRecord(record))).map(formatAddress);
    expect(routers(RECORD)).toEqual(["10.60.0.1", "fd60::1"]);
    const { router: _, ...withoutRouter } = IPV4;
    expect(routers({ ...RECORD, ipv4: withoutRouter })).toEqual(["fd60::1"]);
    const { ipv6: __, ...onlyIpv4 } = RECORD;
    const refusal = expect.objectContaining({ word: "node-cidr-missing", message: expect.stringContaining("names no router address") });
    expect(() => routers({ ...onlyIpv4, ipv4: withoutRouter })).toThrow(refusal);
    expect(() => routersOf(join(directory.path, "nothing"))).toThrow(refusal);
  });

  it("has ranges for the families that it has, of which there must be one", () => {
    expect(rangesOf(RECORD).ranges.map(({ family }) => family)).toEqual([4, 6]);
    const { ipv4: _, ipv6: __, ...none } = RECORD;
    expect(() => rangesOf(none)).toThrow(expect.objectContaining({ word: "node-cidr-missing" }));
  });
});
