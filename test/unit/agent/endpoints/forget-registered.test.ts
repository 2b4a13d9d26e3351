/** How an endpoint that was registered over the API goes (A§2.7). */

import { forgetRegistered } from "../../../../agent/attachments/start.ts";
import type { EndpointRecord } from "../../../../handover/record.ts";
import { recordOf } from "../../../support/endpoint-record.ts";

const RECORD = recordOf(4, {
  addresses: [
    { address: "10.60.0.1", family: 4, grant: "file", token: "t1" },
    { address: "10.60.0.2", family: 4, grant: "external" },
  ],
});

async function forgotten(record: EndpointRecord, release: (address: string, token: string) => Promise<void> = async () => {}) {
  const done: string[] = [];
  const note = async (what: string) => {
    await Bun.sleep(1);
    done.push(what);
  };
  const endpoints = {
    write: async (one: EndpointRecord) => {
      await note(`write ${one.phase}`);
      return one;
    },
    remove: ({ phase }: EndpointRecord) => note(`remove ${phase}`),
    discard: () => note("discard"),
    retry: () => note("retry"),
  };
  const parts = {
    endpoints,
    release: async (address: string, token: string) => {
      await release(address, token);
      await note(`release ${address} ${token}`);
    },
  };
  const error = await forgetRegistered(record, parts).catch(({ message }: Error) => message);
  return [...done, `ended ${error}`];
}

describe("A registered endpoint that is forgotten", () => {
  it("gives back the addresses of this node's range, between the first word of its record and the last", async () => {
    expect(await forgotten(RECORD)).toEqual(["write deleting:begun", "release 10.60.0.1 t1", "remove deleting:begun", "ended undefined"]);
  });

  it("is tried again when an address cannot be given back, and its record stays", async () => {
    expect(await forgotten(RECORD, () => Promise.reject(new Error("arranged")))).toEqual([
      "write deleting:begun",
      "retry",
      "ended arranged",
    ]);
  });

  it("that was never registered to the end gives nothing back", async () => {
    expect(await forgotten({ ...RECORD, phase: "creating" })).toEqual(["discard", "ended undefined"]);
  });
});
