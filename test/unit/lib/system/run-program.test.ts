/** A program that nobody waits for any more: it and all that it started end with the call. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { runProgram } from "../../../../lib/system/run-program.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";
import { isRunning } from "../../../support/kubernetes/process.ts";

const base = fresh(() => new TemporaryDirectory());

function sleeper(signal: AbortSignal) {
  // The name of the file comes last, so that it is there with its content.
  const script = `sleep 60 & echo $! > ${base.path}/new; mv ${base.path}/new ${base.path}/pid; wait`;
  return { command: ["/bin/sh", "-c", script] as const, stdin: new Uint8Array(), env: {}, timeoutMs: 15_000, maxOutput: 1024, signal };
}

describe("a program whose caller gives up", () => {
  it("is killed with all that it started, and the call says so", async () => {
    const abort = new AbortController();
    const running = runProgram(sleeper(abort.signal)).catch((error: unknown) => error);
    while (!existsSync(join(base.path, "pid"))) await Bun.sleep(5);
    abort.abort(new Error("nobody waits"));

    expect(await running).toMatchObject({ kind: "aborted", cause: { message: "nobody waits" } });

    // SIGKILL is sent when the call comes back; the kernel needs a moment to carry it out.
    const pid = Number(readFileSync(join(base.path, "pid"), "utf8"));
    while (isRunning(pid)) await Bun.sleep(5);
  });

  it("is killed at once when the caller had given up before", async () => {
    const running = runProgram(sleeper(AbortSignal.abort(new Error("nobody waits"))));
    await expect(running).rejects.toMatchObject({ kind: "aborted" });
  });
});
