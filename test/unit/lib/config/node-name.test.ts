import { symlinkSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { decodeNetworkConfig } from "../../../../lib/config/decode.ts";
import { checkNodenameFile, nodeName } from "../../../../lib/config/node-name.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const directory = fresh(() => new TemporaryDirectory());

describe("nodeName", () => {
  it("prefers nodename, as it is written", () => {
    expect(nameWith({ nodename: "Node-A", hostname: "other" }, "from-file")).toBe("Node-A");
  });

  it("then takes the nodename file", () => {
    expect(nameWith({ hostname: "other" }, "node1")).toBe("node1");
  });

  it("trims the file, whose newline is no part of the name (design §8, recording nodename-newline)", () => {
    expect(nameWith({}, " node1\n")).toBe("node1");
  });

  it.each(["", "  \n"])("then takes the deprecated key hostname when the file holds %j", (content) => {
    expect(nameWith({ hostname: "h1" }, content)).toBe("h1");
  });

  it("takes hostname when there is no file (recording nodename-hostname-key)", () => {
    expect(nameWith({ hostname: "H1" }, undefined)).toBe("H1");
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
});

function nameWith(netconf: { nodename?: string; hostname?: string }, content: string | undefined): string {
  const file = join(directory.path, "nodename");
  if (content !== undefined) writeFileSync(file, content);
  return nodeName(decodeNetworkConfig({ ...netconf, nodename_file: file }));
}
