/** What `explain` says of a host on which no agent answers: the list decides who serves its calls. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { absent } from "../../../../cmd/tortiectl/explain/surroundings.ts";
import { readBootId } from "../../../../handover/run-directory.ts";

describe("A host on which no agent answers", () => {
  let directory: string;
  let file: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "explain-agent-"));
    file = join(directory, "agent.json");
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  const leave = () =>
    writeFileSync(file, JSON.stringify({ pid: 1, version: "0.1.0", phase: "ready", bootId: readBootId(), ipam: "blocks" }));

  it.each([
    [false, "none has been here since the host's start"],
    [true, "the last one was in phase ready"],
  ])("fails where the list requires one (agent.json: %j), and says what becomes of ADD and DEL", (isLeft, seen) => {
    if (isLeft) leave();
    expect(absent("agent", file, "require")).toMatchObject({
      status: "failed",
      word: "agent-unreachable",
      message: expect.stringMatching(new RegExp(`${seen}.*an ADD waits and fails, a DEL removes the link and queues the rest`)),
      next: expect.stringContaining('set "agent" to "off"'),
    });
  });

  it("fails where one has gone from a list that does without, which the plugins serve", () => {
    leave();
    expect(absent("agent", file, "off")).toMatchObject({
      status: "failed",
      message: expect.stringMatching(/an agent was here, phase ready.*the plugins serve their calls themselves/),
      next: expect.stringContaining("docs/how-to/uninstall.md"),
    });
  });

  it("is well without one where none has been and none is required", () => {
    expect(absent("agent", file, undefined)).toMatchObject({
      status: "skipped",
      message: expect.stringContaining("nobody enforces policy"),
    });
  });
});
