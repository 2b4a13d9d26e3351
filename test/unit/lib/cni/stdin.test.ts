import { join } from "node:path";
import { execaSync } from "execa";

const SCRIPT = `import { readStandardInput } from ${JSON.stringify(join(process.cwd(), "lib/cni/request.ts"))};
  try { const bytes = readStandardInput(); console.log(bytes.length, String(Bun.hash(bytes))); } catch (error) { console.log(error.code); }`;

/** What a fresh process makes of `command | it`, run by a shell. */
function output(shell: string): string {
  return execaSync("/bin/sh", ["-c", shell.replace("READER", `"$BUN" -e "$SCRIPT"`)], {
    env: { BUN: process.execPath, SCRIPT, PATH: "/usr/bin:/bin" },
    extendEnv: false,
    stripFinalNewline: false,
  }).stdout;
}

const expected = (bytes: Uint8Array) => `${bytes.length} ${Bun.hash(bytes)}\n`;

describe("readStandardInput", () => {
  it("reads a pipe to its end, whatever its size and pace", () => {
    expect(output("printf '{}\\n' | READER")).toBe(expected(Buffer.from("{}\n")));
    expect(output("(printf a; sleep 0.2; printf b) | READER")).toBe(expected(Buffer.from("ab")));
    expect(output("head -c 3000000 /dev/zero | READER")).toBe(expected(new Uint8Array(3_000_000)));
    expect(output("READER < /dev/null")).toBe(expected(new Uint8Array()));
  });

  it("waits for a writer on a pipe that does not block", () => {
    const nonblocking = `python3 -c "import fcntl,os,time; fcntl.fcntl(0,4,os.O_NONBLOCK); time.sleep(0.1); os.execv(os.environ['BUN'],['bun','-e',os.environ['SCRIPT']])"`;
    expect(output(`(sleep 0.5; printf ab) | ${nonblocking}`)).toBe(expected(Buffer.from("ab")));
  });

  it("throws what the system says", () => {
    expect(output("READER < /")).toBe("EISDIR\n");
  });
});
