import { symlinkSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { decodeNetworkConfig } from "../../../../lib/config/decode.ts";
import { assertNodeName, checkNodenameFile, nodeName } from "../../../../lib/config/node-name.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const directory = fresh(() => new TemporaryDirectory());

describe("nodeName", () => {
  it.each<[string, { nodename?: string; hostname?: string }, string | undefined, string]>([
    ["prefers nodename, as it is written", { nodename: "Node-A", hostname: "other" }, "from-file", "Node-A"],
    ["then takes the nodename file", { hostname: "other" }, "node1", "node1"],
    ["trims the file, whose newline is no part of the name (design §8, recording nodename-newline)", {}, " node1\n", "node1"],
    ['then takes the deprecated key hostname when the file holds ""', { hostname: "h1" }, "", "h1"],
    ['then takes the deprecated key hostname when the file holds "  \\n"', { hostname: "h1" }, "  \n", "h1"],
    ["takes hostname when there is no file (recording nodename-hostname-key)", { hostname: "H1" }, undefined, "H1"],
  ])("%s", (_, netconf, content, name) => {
    const file = join(directory.path, "nodename");
    if (content !== undefined) writeFileSync(file, content);
    expect(nodeName(decodeNetworkConfig({ ...netconf, nodename_file: file }))).toBe(name);
  });

  it("falls back to the operating system's name, trimmed and in lower case", () => {
    const config = decodeNetworkConfig({ nodename_file: join(directory.path, "none") });
    expect(nodeName(config, () => " Big-Host\n")).toBe("big-host");
    expect(nodeName(config)).toBe(hostname().toLowerCase());
  });
});

describe("checkNodenameFile", () => {
  const file = () => join(directory.path, "nodename");
  const config = (more = {}) => decodeNetworkConfig({ nodename: "n", nodename_file: file(), ...more });

  it("wants the file even where nodename is set, and says who writes it (recording nodename-file-missing)", () => {
    expect(() => checkNodenameFile(config(), "kubernetes")).toThrow(
      expect.objectContaining({
        word: "nodename-file-missing",
        code: 999,
        message: `stat ${file()}: no such file or directory: check that the calico/node container is running and has mounted /var/lib/calico/`,
      }),
    );
  });

  it("is content with an empty file", () => {
    writeFileSync(file(), "");
    expect(() => checkNodenameFile(config(), "etcdv3")).not.toThrow();
  });

  it("says what else is wrong with the path", () => {
    symlinkSync(file(), file());
    expect(() => checkNodenameFile(config({ nodename_file: file() }), "kubernetes")).toThrow(
      /: too many levels of symbolic links: .*mounted \/var\/lib\/calico\//,
    );
  });

  it("does not look where the file is optional, nor with the local datastore", () => {
    expect(() => checkNodenameFile(config({ nodename_file_optional: true }), "kubernetes")).not.toThrow();
    expect(() => checkNodenameFile(config(), "local")).not.toThrow();
  });

  it("does not send people to a calico/node that has never been on the host", () => {
    const absent = join(directory.path, "absent", "nodename");
    expect(() => checkNodenameFile(config({ nodename_file: absent }), "kubernetes")).toThrow(
      `stat ${absent}: no such file or directory: no agent of Calico has been on this host`,
    );
  });
});

describe("assertNodeName", () => {
  it.each(["\0\0\0\0", "node1\nnode2", "a b", "../etc", "-node", "node-", "", "nöde"])("refuses %j", (name) => {
    expect(() => assertNodeName(name)).toThrow(expect.objectContaining({ word: "nodename-invalid" }));
  });

  it.each(["node1", "Node-A", "ip-10-0-0-1.eu-central-1.compute.internal", "build_host"])("takes %s", (name) => {
    expect(() => assertNodeName(name)).not.toThrow();
  });
});
