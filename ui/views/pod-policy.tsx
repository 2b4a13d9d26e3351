/** Shows what policy means for one pod: who may reach it and whom it may reach, and the packets of it that were dropped. */
import { useEffect, useState } from "preact/hooks";
import type { PolicyExplanation } from "../../agent/api/policy-schema.ts";
import { answered, faultOf } from "../answers.ts";
import { ask, type LiveState, useAnswer } from "../ask.ts";
import type { Answer } from "../contract.ts";
import { counted, moment, workloadOf } from "../format.ts";
import { Columns, CommandLine, Empty, Mark, Name, Shown, Trouble } from "../parts.tsx";

interface PodProps {
  readonly id: string;
  readonly live: LiveState;
}

interface End {
  /** Is the name that the agent finds it by. */
  readonly name: string;
  readonly shown: string;
}

/** Asks by the host end, which no two endpoints share. */
function endsOf(live: LiveState): ReadonlyMap<string, End> {
  const endpoints = answered(live.endpoints) ?? [];
  return new Map(
    endpoints.flatMap((one) => {
      const name = one.status.networking["interface-name"];
      return name === undefined ? [] : [[String(one.id), { name, shown: workloadOf(one) }]];
    }),
  );
}

/** Asks so many ends at first: each costs two questions. */
const MOST_ENDS = 40;

interface Verdicts {
  readonly end: End;
  readonly into: Answer<PolicyExplanation>;
  readonly outOf: Answer<PolicyExplanation>;
}

export function Reach({ id, live }: PodProps) {
  const [port, setPort] = useState("80");
  const [asked, setAsked] = useState<string>();
  const [verdicts, setVerdicts] = useState<readonly Verdicts[]>([]);
  const ends = endsOf(live);
  const own = ends.get(id);
  const others = [...ends].filter(([other]) => other !== id).map(([, end]) => end);
  // Asks when somebody wants it, not whenever an endpoint changes.
  useEffect(() => {
    setVerdicts([]);
    if (own === undefined || asked === undefined) return undefined;
    const gone = new AbortController();
    void askAll(own, others.slice(0, MOST_ENDS), asked, gone.signal, (one) => setVerdicts((before) => [...before, one]));
    return () => gone.abort();
  }, [id, asked]);
  const submit = (event: Event) => {
    event.preventDefault();
    setAsked(port);
  };
  return (
    <section>
      <h3>Who may reach it, and whom it may reach</h3>
      <form class="toolbar" onSubmit={submit}>
        <label>
          Port{" "}
          <input
            size={9}
            value={port}
            onInput={({ currentTarget }) => setPort(currentTarget.value)}
            pattern="(?:\d{1,5}(?:/(?:tcp|udp|sctp))?|icmp)"
          />
        </label>
        <button type="submit" disabled={own === undefined || others.length === 0}>
          Ask for each endpoint
        </button>
      </form>
      {others.length === 0 && <Empty>There is no other endpoint here.</Empty>}
      {verdicts.length > 0 && <VerdictTable of={verdicts} />}
      {asked !== undefined && others.length > MOST_ENDS && (
        <p class="muted">
          The first {MOST_ENDS} of {counted(others.length, "endpoint")}.
        </p>
      )}
    </section>
  );
}

/** Asks one end after the other: the agent has other work. */
async function askAll(own: End, others: readonly End[], port: string, signal: AbortSignal, tell: (one: Verdicts) => void): Promise<void> {
  for (const end of others) {
    const [into, outOf] = await Promise.all([
      ask("reach", { from: end.name, to: own.name, port }, signal),
      ask("reach", { from: own.name, to: end.name, port }, signal),
    ]);
    if (signal.aborted) return;
    tell({ end, into, outOf });
    // Each would say the same.
    if (faultOf(into) !== undefined) return;
  }
}

function VerdictTable({ of }: { readonly of: readonly Verdicts[] }) {
  const fault = faultOf(of[0]?.into);
  if (fault !== undefined) return <Trouble fault={fault} title="Policy cannot be asked" />;
  return (
    <div class="scroll">
      <table class="reach">
        <Columns of={["Other end", "may reach it", "it may reach"]} />
        <tbody>
          {of.map(({ end, into, outOf }) => (
            <tr key={end.name}>
              <th scope="row">
                <Name of={end.shown} />
              </th>
              <VerdictCell of={into} />
              <VerdictCell of={outOf} />
            </tr>
          ))}
        </tbody>
      </table>
      <CommandLine of={of[0]?.into} />
    </div>
  );
}

function VerdictCell({ of }: { readonly of: Answer<PolicyExplanation> }) {
  const verdicts = answered(of)?.verdicts ?? [];
  const isAllowed = verdicts.length > 0 && verdicts.every(({ verdict }) => verdict === "allow");
  const reason = deciding(verdicts);
  return (
    <td>
      <Mark tone={isAllowed ? "ok" : "failed"} label={isAllowed ? "allowed" : "denied"} />{" "}
      {reason !== undefined && (
        <span class="muted">
          <Name of={reason} />
        </span>
      )}
    </td>
  );
}

/** @returns the reason of a denial, where there is one, else that of the receiving end */
function deciding(verdicts: PolicyExplanation["verdicts"]): string | undefined {
  const sides = verdicts.flatMap(({ egress, ingress }) => [egress, ingress].filter((side) => side !== undefined));
  return (sides.find(({ verdict }) => verdict === "deny") ?? sides.at(-1))?.reason;
}

export function Drops({ id, live }: PodProps) {
  const own = endsOf(live).get(id);
  const { answer, isAsking, again } = useAnswer("drops", own === undefined ? undefined : { endpoint: own.name });
  return (
    <section>
      <h3>
        Last drops{" "}
        <button type="button" class="quiet" onClick={again}>
          Look again
        </button>
      </h3>
      <Shown answer={answer} isAsking={isAsking}>
        {({ drops }) =>
          drops.length === 0 ? (
            <Empty>No packet of those that are remembered was dropped.</Empty>
          ) : (
            <ol class="timeline">
              {[...drops].reverse().map((drop, index) => (
                <li key={`${drop.time} ${index}`} class="failed">
                  <time dateTime={drop.time}>{moment(drop.time)}</time>
                  <div>
                    <strong>
                      {drop.direction} {drop.reason}
                    </strong>{" "}
                    <span class="mono">
                      {drop.protocol} <Name of={endText(drop.source)} /> → <Name of={endText(drop.destination)} />
                    </span>
                    <p class="muted">
                      <Name of={drop.explanation} />
                    </p>
                  </div>
                </li>
              ))}
            </ol>
          )
        }
      </Shown>
    </section>
  );
}

function endText({
  pod,
  address,
  port,
}: {
  readonly pod?: string | undefined;
  readonly address: string;
  readonly port?: number | undefined;
}): string {
  const place = port === undefined ? address : `${address.includes(":") ? `[${address}]` : address}:${port}`;
  return pod === undefined ? place : `${pod} (${place})`;
}
