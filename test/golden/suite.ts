/** Declares one test a scenario, and at the end that every general difference still occurs and that nothing was dropped silently. */
import { needOf } from "./applicability.ts";
import { GENERAL } from "./differences.ts";
import { loadRecording, recordingNames, type Suite } from "./recording.ts";
import { verdictOf } from "./verdict.ts";

const SCENARIO_LIMIT_MS = 60_000;

export function describeSuite(suite: Suite): void {
  describe(`recordings of ${suite}, played on the local store`, () => {
    const occurred = new Set<string>();
    for (const name of recordingNames(suite)) {
      const recording = loadRecording(suite, name);
      const need = needOf(recording);
      if (need !== undefined) {
        it.skip(`${name}: needs ${need.store}, ${need.reason}`, () => undefined);
        continue;
      }
      it(
        `${name}: ${recording.title}`,
        async () => {
          const { problems, general } = await verdictOf(recording);
          for (const difference of general) occurred.add(difference);
          // A thrown text, because Jest on Bun prints no message of a failed `expect`.
          if (problems.length > 0) throw new Error(`scripts/replay ${suite}/${name}\n${problems.join("\n")}`);
        },
        SCENARIO_LIMIT_MS,
      );
    }

    it("show every general difference that is said to occur in this suite", () => {
      expect(GENERAL.filter(({ name, suites }) => suites.includes(suite) && !occurred.has(name))).toEqual([]);
    });
  });
}
