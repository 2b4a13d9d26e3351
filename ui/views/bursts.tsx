/** Shows ADDs that came together as a waterfall: when each began, and how long each step of it took. */
import { useEffect, useState } from "preact/hooks";
import type { Explanation } from "../../doctor/explain/explanation.ts";
import { answered, faultOf } from "../answers.ts";
import { ask, type LiveState } from "../ask.ts";
import { type Bar, type Burst, barsOfHistory, burstsOf, ticksOf } from "../bursts.ts";
import type { Answer } from "../contract.ts";
import { counted, duration, moment, plain } from "../format.ts";
import { CommandLine, Empty, Mark, Name, Trouble } from "../parts.tsx";

export function BurstsView({ live }: { readonly live: LiveState }) {
  const { bars, source } = useBars(live);
  const [chosen, setChosen] = useState<number>();
  const bursts = burstsOf(bars ?? []);
  const burst = bursts.find(({ beginMs }) => beginMs === chosen) ?? largestOf(bursts);
  const fault = faultOf(live.endpoints);
  return (
    <div class="main">
      {fault !== undefined && bursts.length === 0 && <Trouble fault={fault} />}
      {bars === undefined && fault === undefined && <p class="muted pending">Asking…</p>}
      {bars !== undefined && burst === undefined && <Empty>No pod was added since the agent remembers.</Empty>}
      {burst !== undefined && (
        <>
          <form class="toolbar">
            <label>
              Burst{" "}
              <select value={String(burst.beginMs)} onChange={({ currentTarget }) => setChosen(Number(currentTarget.value))}>
                {bursts.map(({ beginMs, bars: own }) => (
                  <option key={beginMs} value={String(beginMs)}>
                    {moment(new Date(beginMs).toISOString())}, {counted(own.length, "pod")}
                  </option>
                ))}
              </select>
            </label>
          </form>
          <Waterfall of={burst} />
        </>
      )}
      <CommandLine of={source} />
    </div>
  );
}

function largestOf(bursts: readonly Burst[]): Burst | undefined {
  return bursts.reduce<Burst | undefined>(
    (best, burst) => (best === undefined || burst.bars.length > best.bars.length ? burst : best),
    undefined,
  );
}

/** Limits how many endpoints are asked, and how many at once. */
const MOST_ENDPOINTS = 128;
const AT_ONCE = 4;

interface Found {
  readonly bars: readonly Bar[] | undefined;
  /** Is one of the answers that it was read from. */
  readonly source: Answer<unknown> | undefined;
}

/** Asks what is known of each endpoint's container, whose history has the steps of its ADD. */
function useBars(live: LiveState): Found {
  const [found, setFound] = useState<Found>({ bars: undefined, source: undefined });
  const endpoints = answered(live.endpoints);
  const containers = endpoints?.map(({ status }) => status["external-identifiers"]["container-id"]).join(" ");
  useEffect(() => {
    if (containers === undefined) return undefined;
    const gone = new AbortController();
    const names = containers.split(" ").filter((name) => name !== "");
    void explainAll(names.slice(-MOST_ENDPOINTS), gone.signal).then((answers) => {
      if (gone.signal.aborted) return;
      const histories = answers.flatMap((answer) => answered(answer)?.history ?? []);
      setFound({ bars: barsOfHistory(histories), source: answers.at(-1) });
    });
    return () => gone.abort();
  }, [containers]);
  return found;
}

async function explainAll(containers: readonly string[], signal: AbortSignal): Promise<readonly Answer<Explanation>[]> {
  const answers: Answer<Explanation>[] = [];
  for (let from = 0; from < containers.length && !signal.aborted; from += AT_ONCE) {
    const some = containers.slice(from, from + AT_ONCE);
    answers.push(...(await Promise.all(some.map((name) => ask("explain", { kind: "container", name }, signal)))));
  }
  return answers;
}

const COLOURS = 8;

function Waterfall({ of }: { readonly of: Burst }) {
  const length = Math.max(of.endMs - of.beginMs, 1);
  const names = [...new Set(of.bars.flatMap(({ steps }) => steps.map(({ name }) => name)))];
  const share = (milliseconds: number) => `${(100 * milliseconds) / length}%`;
  return (
    <figure class="waterfall">
      <figcaption>
        {counted(of.bars.length, "pod")} within {duration(length)}, the slowest in{" "}
        {duration(Math.max(...of.bars.map(({ totalMs }) => totalMs)))}
      </figcaption>
      <ul class="legend" aria-label="Steps">
        {names.map((name, index) => (
          <li key={name}>
            <span class={`swatch step${index % COLOURS}`} aria-hidden="true" />
            <Name of={name} />
          </li>
        ))}
      </ul>
      <div class="axis" aria-hidden="true">
        {ticksOf(length).map((tick) => (
          <span key={tick} style={{ left: share(tick) }}>
            {duration(tick)}
          </span>
        ))}
      </div>
      <ol>
        {of.bars.map((bar) => (
          <li key={bar.key}>
            <span class="who">
              {bar.outcome !== "ok" && <Mark tone={bar.outcome} />} <Name of={bar.name} />
            </span>
            <div class="track" aria-hidden="true">
              <div class={`whole ${bar.outcome}`} style={{ left: share(bar.beginMs - of.beginMs), width: share(bar.totalMs) }}>
                {bar.steps.map(({ name, milliseconds }, index) => (
                  <span
                    key={`${name} ${index}`}
                    class={`step${names.indexOf(name) % COLOURS}`}
                    title={`${plain(name)}: ${duration(milliseconds)}`}
                    style={{ width: `${(100 * milliseconds) / Math.max(bar.totalMs, 1)}%` }}
                  />
                ))}
              </div>
            </div>
            <span class="total">{duration(bar.totalMs)}</span>
            <span class="hidden">
              begins after {duration(bar.beginMs - of.beginMs)}
              {bar.steps.map(({ name, milliseconds }) => `, ${plain(name)} ${duration(milliseconds)}`).join("")}
            </span>
          </li>
        ))}
      </ol>
    </figure>
  );
}
