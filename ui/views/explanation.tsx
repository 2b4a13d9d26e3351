/** Shows what `tortiectl explain` says of a pod or an address. */
import type { ExplainedAttachment, Explanation, HistoryEntry } from "../../doctor/explain/explanation.ts";
import type { CheckResult } from "../../doctor/report.ts";
import { duration, moment } from "../format.ts";
import { Facts, Mark, Name, type Tone } from "../parts.tsx";

export function ExplanationView({ of }: { readonly of: Explanation }) {
  const troubles = of.results.filter(({ status }) => status !== "ok");
  return (
    <div class="explanation">
      <p class="summary">
        <Name of={of.summary} />
      </p>
      <p>
        <span class="tag">next</span> <Name of={of.next} />
      </p>
      {of.addresses.map((one) => (
        <Facts
          key={one.address}
          of={[
            ["address", one.address],
            ["why", one.why],
            ["pool", one.pool],
            ["block", one.block],
            ["block's owner", one.blockOwner],
          ]}
        />
      ))}
      {of.attachments.map((one) => (
        <Attachment key={`${one.containerId} ${one.ifname}`} of={one} />
      ))}
      {of.results.length > 0 && (
        <>
          <h4>
            Compared: {of.results.length - troubles.length} of {of.results.length} as they should be
          </h4>
          <Results of={troubles} />
        </>
      )}
      {of.history.length > 0 && (
        <>
          <h4>History</h4>
          <History of={of.history} />
        </>
      )}
    </div>
  );
}

function Attachment({ of }: { readonly of: ExplainedAttachment }) {
  return (
    <>
      <Facts
        of={[
          ["pod", of.pod],
          ["state", of.state],
          ["since", of.since && moment(of.since)],
          ["host end", of.hostEnd && `${of.hostEnd.name}, ${of.hostEnd.state}`],
          ["pod end", of.podEnd && `${of.podEnd.name}, ${of.podEnd.state}`],
          ["sandbox", of.netns],
          [
            "MTU",
            of.mtu?.podEnd === undefined
              ? undefined
              : `${of.mtu.podEnd}${of.mtu.uplink === undefined ? "" : `, uplink ${of.mtu.uplink.name} ${of.mtu.uplink.mtu}`}`,
          ],
        ]}
      />
      <details>
        <summary>Routes, sysctls and rules</summary>
        <ul class="plain mono">
          {of.routes.map(({ side, wanted, found }) => (
            <li key={`${side} ${wanted}`}>
              <Mark tone={found === undefined ? "ok" : "failed"} />{" "}
              <Name of={`${side}: ${wanted}${found === undefined ? "" : `, found ${found}`}`} />
            </li>
          ))}
          {of.sysctls.map(({ path, wanted, found }) => (
            <li key={path}>
              <Mark tone={wanted === found ? "ok" : "failed"} />{" "}
              <Name of={`${path} = ${found}${wanted === found ? "" : `, wanted ${wanted}`}`} />
            </li>
          ))}
          {[...of.rules, ...of.chained].map(({ by, place, isPresent, message }) => (
            <li key={`${by} ${place}`}>
              <Mark tone={isPresent ? "ok" : "failed"} /> <Name of={`${by}, ${place}: ${message}`} />
            </li>
          ))}
        </ul>
      </details>
    </>
  );
}

/** Lists what was judged. */
export function Results({ of }: { readonly of: readonly CheckResult[] }) {
  return (
    <ul class="results">
      {of.map(({ check, status, object, message, word, next }) => (
        <li key={`${check} ${object} ${message}`}>
          <Mark tone={status} />
          <div>
            <p>
              <strong>
                <Name of={object} />
              </strong>{" "}
              <Name of={message} />
            </p>
            {next !== undefined && (
              <p>
                <span class="tag">next</span> <Name of={next} />
              </p>
            )}
          </div>
          <span class="muted mono">{word ?? check}</span>
        </li>
      ))}
    </ul>
  );
}

const TONES: Readonly<Record<HistoryEntry["outcome"], Tone>> = { ok: "ok", warning: "warning", failed: "failed" };

function History({ of }: { readonly of: readonly HistoryEntry[] }) {
  return (
    <ol class="timeline">
      {of.map((entry) => (
        <li key={`${entry.time} ${entry.event} ${entry.message ?? ""}`} class={TONES[entry.outcome]}>
          <time dateTime={entry.time}>{moment(entry.time)}</time>
          <div>
            <strong>{entry.event}</strong> {entry.milliseconds !== undefined && <span class="tag">{duration(entry.milliseconds)}</span>}{" "}
            <Name of={entry.message ?? [entry.pod ?? entry.containerId ?? "", ...entry.addresses].join(" ")} />
            {entry.steps.length > 0 && (
              <p class="muted mono">{entry.steps.map(({ name, milliseconds }) => `${name} ${duration(milliseconds)}`).join(", ")}</p>
            )}
            {entry.next !== undefined && (
              <p>
                <span class="tag">next</span> <Name of={entry.next} />
              </p>
            )}
          </div>
        </li>
      ))}
    </ol>
  );
}
