/** The forwarder under the address and undefined-behaviour sanitizers: whatever comes in, it prints an answer or becomes its program. */
import { execFileSync, spawnSync } from "node:child_process";
import type { Socket } from "node:net";
import { join } from "node:path";
import { shared, TemporaryDirectory } from "../../support/fixtures.ts";
import { answerOf, ForwarderFolder } from "../../support/forwarder.ts";
import { seededRandom } from "../../support/seeded-random.ts";

const SEED = Number(process.env.TORTIE_FUZZ_SEED ?? 26);
const RUNS = Number(process.env.TORTIE_FUZZ_RUNS ?? 300);
const SANITIZER_EXIT = 77;
const PROGRAM = "#!/bin/sh\nexit 42\n";
const has = spawnSync("gcc", ["--version"]).status === 0;

(has ? describe : describe.skip)("The forwarder under sanitizers", () => {
  const dir = shared(() => new TemporaryDirectory());
  const forwarder = () => join(dir.path, "forwarder");
  const random = seededRandom(SEED);
  const below = (limit: number) => Math.floor(random() * limit);
  const bytes = (length: number) => Buffer.from(Array.from({ length }, () => below(256)));

  beforeAll(() => {
    const flags = ["-std=gnu11", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", '-DVERSION="0.0.0"'];
    execFileSync("gcc", [...flags, "-o", forwarder(), "forwarder/forwarder.c"]);
  });

  function hostileAnswer(): Buffer {
    const answer = Buffer.from(answerOf([200, 400, 421, 503, 65_535][below(5)] ?? 200, "x".repeat(below(2) * below(70_000))));
    if (below(2) === 0) answer.set(bytes(1 + below(8)), below(20 - 8));
    if (below(3) === 0) return Buffer.concat([answer, bytes(below(100))]);
    return below(3) === 0 ? answer.subarray(0, below(answer.length)) : answer;
  }

  function reply(socket: Socket): void {
    const answer = hostileAnswer();
    const cut = below(answer.length + 1);
    socket.write(answer.subarray(0, cut));
    if (below(10) === 0) socket.destroy();
    else setTimeout(() => socket.end(answer.subarray(cut)), below(3));
  }

  /** Zero bytes end a variable and cannot be in one. */
  const text = (length: number) => Buffer.from(bytes(length).map((byte) => byte || 1)).toString("latin1");

  function hostileVariables(): Record<string, string> {
    const path = Array.from(
      { length: below(40) },
      () => ["", "/", "/usr/lib/cni", text(below(300)), "x".repeat(below(6_000))][below(5)],
    ).join(":");
    return {
      CNI_PATH: path,
      CNI_NETNS: ["", "/proc/self/ns/net", "/dev/zero", "/", text(below(200)), "x".repeat(below(9_000))][below(6)] ?? "",
      ...Object.fromEntries(Array.from({ length: below(30) }, (_, i) => [`V${i}`, text(below(2_000))])),
      ...(below(20) === 0 ? { TORTIE_SOCK: "/".repeat(below(200)) } : {}),
      ...(below(20) === 0 ? { CNI_COMMAND: text(below(50)) } : {}),
    };
  }

  it(`finds nothing in ${RUNS} calls (seed ${SEED})`, async () => {
    await using folder = new ForwarderFolder(forwarder(), PROGRAM);
    await folder.listen(reply);
    const ends = new Map<number, number>();
    for (let run = 0; run < RUNS; run++) {
      const env = {
        ...folder.variables,
        ...hostileVariables(),
        ASAN_OPTIONS: `exitcode=${SANITIZER_EXIT}:detect_leaks=1`,
        UBSAN_OPTIONS: `exitcode=${SANITIZER_EXIT}:halt_on_error=1`,
      };
      const stdin = below(10) === 0 ? Buffer.alloc((1 << 20) - 5_000 + below(10_000), "x") : bytes(below(3_000));
      const { exit, stderr } = await folder.run({ env, stdin });
      expect({ run, exit, stderr }).toEqual({ run, exit, stderr: "" });
      ends.set(exit, (ends.get(exit) ?? 0) + 1);
    }
    // Answers printed (0 and 1) and handed over (42), and nothing else: no signal, no sanitizer.
    expect([...ends.keys()].sort()).toEqual([0, 1, 42]);
  });
});
