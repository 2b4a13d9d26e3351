import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MTU_FILE, resolveMtu } from "../../../../lib/config/node-name.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const directory = fresh(() => new TemporaryDirectory());

describe("resolveMtu", () => {
  it("reads Calico's file by default", () => {
    expect(MTU_FILE).toBe("/var/lib/calico/mtu");
  });

  it.each([
    ["1350", 1350],
    ["1350\n", 1350],
    [" +9000 ", 9000],
    ["0", 0],
  ])("takes %j from the file when mtu is not set", (content, mtu) => {
    expect(resolveMtu({ mtu: 0, requireMtuFile: false }, fileWith(content))).toBe(mtu);
  });

  it("prefers mtu of the network configuration, whatever its sign", () => {
    const file = fileWith("1350");
    expect(resolveMtu({ mtu: 1400, requireMtuFile: true }, file)).toBe(1400);
    expect(resolveMtu({ mtu: -1, requireMtuFile: false }, file)).toBe(-1);
  });

  it("leaves the choice to the kernel when there is no file", () => {
    expect(resolveMtu({ mtu: 0, requireMtuFile: false }, join(directory.path, "none"))).toBe(0);
  });

  it("wants the file with require_mtu_file even where mtu is set (recording mtu-file-required)", () => {
    const file = join(directory.path, "none");
    expect(() => resolveMtu({ mtu: 1400, requireMtuFile: true }, file)).toThrow(
      expect.objectContaining({
        word: "mtu-file-invalid",
        code: 999,
        message: `failed to read MTU file: open ${file}: no such file or directory`,
      }),
    );
  });

  it.each(["", "abc", "1500 bytes", "1.5", "0x5dc", "99999999999999999999"])(
    "refuses a file that holds %j, even where mtu is set",
    (content) => {
      const file = fileWith(content);
      expect(() => resolveMtu({ mtu: 1400, requireMtuFile: false }, file)).toThrow(
        expect.objectContaining({
          word: "mtu-file-invalid",
          message: `failed to read MTU file: ${file} holds ${JSON.stringify(content)}, not a decimal number`,
        }),
      );
    },
  );

  it("fails when the file cannot be read for another reason", () => {
    const path = join(directory.path, "mtu");
    mkdirSync(path);
    expect(() => resolveMtu({ mtu: 0, requireMtuFile: false }, path)).toThrow(`failed to read MTU file: open ${path}: is a directory`);
  });
});

function fileWith(content: string): string {
  const file = join(directory.path, "mtu");
  writeFileSync(file, content);
  return file;
}
