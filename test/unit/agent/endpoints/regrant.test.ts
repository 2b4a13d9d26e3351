/** Which lost grants a restore makes again: real grant files. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { regrant } from "../../../../agent/endpoints/restore.ts";
import type { EndpointRecord } from "../../../../handover/record.ts";
import type { Owner } from "../../../../ipam-plugin/host-scope/grant-directory.ts";
import { openGrantDirectory } from "../../../../ipam-plugin/host-scope/grant-directory.ts";
import { GrantFiles } from "../../../../ipam-plugin/host-scope/grant-files.ts";
import { address } from "../../../support/addresses.ts";
import { recordOf } from "../../../support/endpoint-record.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const ADDRESS = "10.62.0.3";
const NOW_MS = 1_000_000;
const OWNER: Owner = { kind: "attachment", network: "net1", containerId: "cid4", ifname: "eth0" };

const directory = fresh(() => new TemporaryDirectory());
let files: GrantFiles;
let told: string[];
beforeEach(() => {
  files = new GrantFiles(openGrantDirectory(directory.path), () => NOW_MS, 0);
  told = [];
});

const endpoint = (changes: Partial<EndpointRecord> = {}, id = 4) =>
  recordOf(id, { addresses: [{ address: ADDRESS, family: 4, grant: "file", token: `token${id}` }], ...changes });

async function restore(...records: readonly EndpointRecord[]): Promise<void> {
  await regrant({
    records,
    files,
    nowMs: () => NOW_MS,
    onRegranted: ({ id }, text) => told.push(`${id} ${text} again`),
    onConflict: ({ id }, text, problem) => told.push(`${id} ${text}: ${problem}`),
  });
}

const grantOf = async () => (await files.read(address(ADDRESS)))?.grant;

describe("the grant of a restored endpoint", () => {
  it("is made again when its file is lost, with the endpoint and the token of the record", async () => {
    await restore(endpoint({ pod: "default/web" }));
    expect(await grantOf()).toEqual({ owner: { ...OWNER, pod: "default/web" }, token: "token4", grantedAtMs: NOW_MS, endpoint: 4 });
    expect(told).toEqual([`4 ${ADDRESS} again`]);
  });

  it.each([
    ["of the same attachment", OWNER, "another"],
    ["of a name that registered the endpoint with this token", { kind: "name", name: "client" }, "token4"],
  ] as const)("stays as it is when the file is there: %s", async (_, owner, token) => {
    await files.create(address(ADDRESS), { owner, token, grantedAtMs: 1 });
    await restore(endpoint());
    expect(await grantOf()).toEqual({ owner, token, grantedAtMs: 1 });
    expect(told).toEqual([]);
  });

  it("is left to somebody else who has it by now, and reported", async () => {
    const other: Owner = { ...OWNER, containerId: "other" };
    await files.create(address(ADDRESS), { owner: other, token: "theirs", grantedAtMs: 1 });
    await restore(endpoint());
    expect(await grantOf()).toEqual({ owner: other, token: "theirs", grantedAtMs: 1 });
    expect(told).toEqual([`4 ${ADDRESS}: it is granted to net1:other:eth0`]);
  });

  it("is one endpoint's only when two have the address", async () => {
    await restore(endpoint(), endpoint({}, 5));
    expect(told).toEqual([`4 ${ADDRESS} again`, `5 ${ADDRESS}: it is granted to net1:cid4:eth0`]);
  });

  it("is neither made for an ADD or DEL that was under way, nor for an address of a block or of somebody else's plugin", async () => {
    const of = (grant: "block" | "external") => endpoint({ addresses: [{ address: ADDRESS, family: 4, grant }] });
    await restore(endpoint({ phase: "adding:dataplane" }), endpoint({ phase: "deleting:addresses" }), of("block"), of("external"));
    expect(await grantOf()).toBeUndefined();
    expect(told).toEqual([]);
  });

  it("is reported when it can be neither read nor made, and the others are made all the same", async () => {
    writeFileSync(join(directory.path, "v6"), "in the way");
    await restore(endpoint({ addresses: [{ address: "fd00::3", family: 6, grant: "file" }] }), endpoint({}, 5));
    expect(told).toEqual([expect.stringMatching(/^4 fd00::3: its grant can be neither read nor made: /), `5 ${ADDRESS} again`]);
  });
});
