/** Declares one test a scenario, and at the end that every general difference still occurs and that nothing was dropped silently. */
import { needOf } from "./applicability.ts";
import { judge } from "./deliberate.ts";
import { DIFFERENCES, GENERAL } from "./differences.ts";
import { loadRecording, recordingNames, type Suite } from "./recording.ts";
import { replay } from "./replay.ts";
import { describeDifference } from "./report.ts";

const SCENARIO_LIMIT_MS = 60_000;

export function describeSuite(suite: Suite): void {
  describe(`recordings of ${suite}, played on the local store`, () => {
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
          const { differences } = await replay(recording);
          const { unexpected, stale } = judge(differences, DIFFERENCES[`${suite}/${name}`], GENERAL);
          const problems = [...unexpected.map(describeDifference), ...stale.map((path) => `listed in differences.ts, but equal: ${path}`)];
          if (problems.length > 0)
            throw new Error(`${problems.length} differences nobody expects (scripts/replay ${suite}/${name})\n${problems.join("\n")}`);
        },
        SCENARIO_LIMIT_MS,
      );
    }
  });
}
