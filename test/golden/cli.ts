/**
 * `scripts/replay main/version-1.0.0`, `scripts/replay add-twice`, `scripts/replay ipam-kdd`: plays scenarios and prints how each differs
 * from its recording; whole suites end with counts. Exit 1 when something is different that nobody expects.
 */
import { needOf } from "./applicability.ts";
import { DIFFERENCES } from "./differences.ts";
import { loadRecording, recordingNames, SUITES, type Suite } from "./recording.ts";
import { verdictOf } from "./verdict.ts";

interface Named {
  readonly suite: Suite;
  readonly name: string;
}

const USAGE = "usage: scripts/replay [--quiet] SUITE | [SUITE/]SCENARIO …\n";

async function main(argv: readonly string[]): Promise<number> {
  const quiet = argv.includes("--quiet");
  const words = argv.filter((word) => !word.startsWith("--"));
  const scenarios = words.flatMap(scenariosOf);
  if (scenarios.length === 0) {
    process.stderr.write(`${USAGE}suites: ${SUITES.join(", ")}\n`);
    return 2;
  }
  const counts = new Map<string, number>();
  for (const scenario of scenarios) {
    const verdict = await playOne(scenario, quiet);
    counts.set(verdict, (counts.get(verdict) ?? 0) + 1);
  }
  process.stdout.write(`${[...counts].map(([verdict, count]) => `${count} ${verdict}`).join(", ")}\n`);
  return counts.has("different") ? 1 : 0;
}

function scenariosOf(word: string): Named[] {
  return SUITES.flatMap((suite) => {
    const names = recordingNames(suite).map((name) => ({ suite, name }));
    return word === suite ? names : names.filter(({ name }) => word === name || word === `${suite}/${name}`);
  });
}

async function playOne({ suite, name }: Named, quiet: boolean): Promise<string> {
  const recording = loadRecording(suite, name);
  const title = `${suite}/${name}: ${recording.title}`;
  const need = needOf(recording);
  if (need !== undefined) {
    if (!quiet) process.stdout.write(`${title}\n  not played: needs ${need.store}, ${need.reason}\n`);
    return `need ${need.store}`;
  }
  const isListed = DIFFERENCES[`${suite}/${name}`] !== undefined;
  const { problems, expected } = await verdictOf(recording);
  const verdict = problems.length > 0 ? "different" : isListed ? "equal but for listed differences" : "equal";
  if (problems.length === 0 && quiet) return verdict;
  const lines = [...problems.map((problem) => `DIFFERENT ${problem}`), ...(quiet ? [] : expected.map((each) => `on purpose ${each}`))];
  process.stdout.write(`${title}\n${lines.map((line) => `  ${line}\n`).join("")}`);
  return verdict;
}

process.exit(await main(process.argv.slice(2)));
