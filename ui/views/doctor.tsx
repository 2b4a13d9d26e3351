/** Shows what `tortiectl doctor` says. */
import { useState } from "preact/hooks";
import type { CheckResult, Report } from "../../doctor/report.ts";
import { useAnswer } from "../ask.ts";
import { moment } from "../format.ts";
import { Mark, Name, Shown, type Tone } from "../parts.tsx";
import { Results } from "./explanation.tsx";

const TONES: readonly Tone[] = ["failed", "warning", "ok", "skipped"];
const WORDS: Readonly<Record<Tone, string>> = { ok: "well", warning: "warnings", failed: "failed", skipped: "not looked at" };

export function DoctorView() {
  const { answer, isAsking, again } = useAnswer("doctor", {});
  return (
    <div class="main">
      <div class="toolbar">
        <button type="button" onClick={again} disabled={isAsking}>
          {isAsking ? "Looking…" : "Look again"}
        </button>
      </div>
      <Shown answer={answer} isAsking={isAsking}>
        {(report) => <ReportView of={report} />}
      </Shown>
    </div>
  );
}

function ReportView({ of }: { readonly of: Report }) {
  const [isAll, setAll] = useState(true);
  const groups = Map.groupBy(of.results, ({ group }) => group);
  return (
    <>
      <ul class="counts" aria-label="Summary">
        {TONES.map((tone) => (
          <li key={tone} class={tone}>
            <Mark tone={tone} /> <strong>{of.results.filter(({ status }) => status === tone).length}</strong> {WORDS[tone]}
          </li>
        ))}
        <li class="muted">
          <Name of={of.host} /> · {moment(of.time)}
        </li>
        <li>
          <label>
            <input type="checkbox" checked={!isAll} onChange={() => setAll(!isAll)} /> problems only
          </label>
        </li>
      </ul>
      {[...groups].map(([group, results]) => (
        <Group
          key={group}
          name={group}
          results={isAll ? results : results.filter(({ status }) => status === "failed" || status === "warning")}
        />
      ))}
    </>
  );
}

function Group({ name, results }: { readonly name: string; readonly results: readonly CheckResult[] }) {
  if (results.length === 0) return null;
  return (
    <section class="group">
      <h2>
        <Name of={name} />
      </h2>
      <Results of={results} />
    </section>
  );
}
