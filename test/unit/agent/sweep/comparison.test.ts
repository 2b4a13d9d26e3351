/** Which endpoints are said to have lost an address, and how much is asked for it. */

import { AddressComparison } from "../../../../agent/sweep/comparison.ts";
import type { EndpointRecord } from "../../../../handover/record.ts";
import { NEVER } from "../../../../lib/system/waiting.ts";
import { recordOf } from "../../../support/endpoint-record.ts";

let records: EndpointRecord[];
/** By address: who has it at the look, "own" for the endpoint. */
let held: Map<string, string | Error>;
/** And when it is asked for alone. */
let granted: (address: string) => boolean;
let asked: number[];
let found: Map<number, string>;
let comparison: AddressComparison;

const addressOf = (id: number) => `10.1.0.${id}`;
const endpoint = (id: number, changes: Partial<EndpointRecord> = {}) =>
  recordOf(id, { addresses: [{ address: addressOf(id), family: 4, grant: "block", handle: `net1.cid${id}` }], ...changes });

beforeEach(() => {
  records = [endpoint(1), endpoint(2)];
  held = new Map([
    [addressOf(1), "own"],
    [addressOf(2), "own"],
  ]);
  granted = () => false;
  asked = [];
  found = new Map();
  comparison = new AddressComparison({
    isRestored: () => true,
    records: () => records,
    look: () => ({
      async holding(_, { address }) {
        const holder = held.get(address);
        if (holder instanceof Error) throw holder;
        return { isTheirs: holder === "own", ...(holder === undefined ? {} : { holder }) };
      },
    }),
    witness: {
      async isGranted({ id }, { address }) {
        asked.push(id);
        return granted(address);
      },
    },
    onLost: (id, kind, what) => found.set(id, `${kind} ${what}`),
    onHeld: (id) => found.delete(id),
  });
});

describe("G21: an endpoint's address", () => {
  it("that is granted to it is asked for once, with its block", async () => {
    await comparison.run(NEVER);
    expect(found.size).toBe(0);
    expect(asked).toEqual([]);
  });

  it("that nobody has, or another one, is found; that it is granted by now, or its endpoint going, is not", async () => {
    records = [endpoint(1), endpoint(2, { pod: "default/web" }), endpoint(3), endpoint(4, { phase: "deleting:begun" })];
    held = new Map([[addressOf(2), "handle net1.b"]]);
    granted = (address) => address === addressOf(3);
    await comparison.run(NEVER);
    expect([...found]).toEqual([
      [
        1,
        "address-lost address-lost: 10.1.0.1 of endpoint 1 (container cid1) is not granted to it any more: another container may get it; restart the pod",
      ],
      [
        2,
        "address-conflict address-conflict: 10.1.0.2 of endpoint 2 (pod default/web, container cid2) is not granted to it any more: " +
          "10.1.0.2 is granted to handle net1.b; restart the pod",
      ],
    ]);
  });

  it("is not found lost when the endpoint has changed while it was asked for", async () => {
    held.delete(addressOf(1));
    granted = () => {
      records = [endpoint(1, { updatedAt: "2026-01-01T00:00:09Z" }), endpoint(2)];
      return false;
    };
    await comparison.run(NEVER);
    expect(found.size).toBe(0);
  });

  it("keeps its finding while the store cannot be asked, and others are compared all the same", async () => {
    held.delete(addressOf(1));
    await comparison.run(NEVER);
    expect([...found.keys()]).toEqual([1]);
    held.set(addressOf(1), new Error("503"));
    held.delete(addressOf(2));
    await expect(comparison.run(NEVER)).rejects.toThrow("1 endpoints could not be compared with the store: endpoint 1: 503");
    expect([...found.keys()]).toEqual([1, 2]);
    held.set(addressOf(1), "own");
    await comparison.run(NEVER);
    expect([...found.keys()]).toEqual([2]);
  });

  it("is asked for in turn, of 32 endpoints a look, where a node has lost all of them", async () => {
    records = Array.from({ length: 80 }, (_, index) => endpoint(index + 1));
    held = new Map();
    for (const count of [32, 64, 80]) {
      await comparison.run(NEVER);
      expect(found.size).toBe(count);
    }
    expect(asked).toHaveLength(96);
  });

  it("that another plugin granted, or nobody, is left to those", async () => {
    records = [
      endpoint(1, { addresses: [{ address: "10.9.0.1", family: 4, grant: "external" }] }),
      endpoint(2, { addresses: [{ address: "10.9.0.2", family: 4, grant: "block", isUngranted: true }] }),
    ];
    await comparison.run(NEVER);
    expect(found.size).toBe(0);
    expect(asked).toEqual([]);
  });
});
