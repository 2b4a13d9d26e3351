/** What an installer has noted of its work, as the next one reads it. */
import { writeFileSync } from "node:fs";
import { readRecord, recordPath, writeRecord } from "../../../installer/record.ts";
import { fresh } from "../../support/fixtures.ts";
import { InstallDirectories } from "../../support/install-directories.ts";

const WHOLE = {
  format: 1,
  files: ["/opt/cni/bin/tortie"],
  formers: ["/opt/cni/bin/tortie"],
  installed: { "/opt/cni/bin/tortie": "7 3 9" },
};

const host = fresh(() => new InstallDirectories());

/** @param stored JSON, or a text as it is */
function readBack(stored: unknown) {
  writeFileSync(recordPath(host.netDir), typeof stored === "string" ? stored : JSON.stringify(stored));
  return readRecord(host.netDir);
}

describe("The record of an installation", () => {
  it("is read as it was written, each path once and in order", () => {
    writeRecord(host.netDir, { files: ["/b", "/a", "/b"], formers: ["/b", "/b"], installed: { "/a": "7 3 9" }, conflist: "{}" });
    expect(readRecord(host.netDir)).toEqual({ files: ["/a", "/b"], formers: ["/b"], installed: { "/a": "7 3 9" }, conflist: "{}" });
  });

  it("tells executables apart by what earlier installers noted too, with the device in front", () => {
    expect(readBack({ ...WHOLE, installed: { "/a": "2049:7 3 9" } }).installed).toEqual({ "/a": "7 3 9" });
    expect(readBack({ files: [], formers: [] }).installed).toEqual({});
  });

  it.each([
    ["is cut", '{"format":1,"files":["/opt'],
    ["lists no files", { ...WHOLE, files: undefined }],
    ["lists files that are no paths", { ...WHOLE, files: [7] }],
    ["has former files that are no list", { ...WHOLE, formers: "/opt/cni/bin/tortie" }],
    ["has fingerprints in a list", { ...WHOLE, installed: ["7 3 9"] }],
    ["has fingerprints that are no texts", { ...WHOLE, installed: { "/a": 7 } }],
    ["has no fingerprints but a text", { ...WHOLE, installed: "7 3 9" }],
    ["has a conflist that is no text", { ...WHOLE, conflist: {} }],
  ])("that %s is none", (_, stored) => {
    expect(readBack(stored)).toEqual({ files: [], formers: [], installed: {} });
  });
});
