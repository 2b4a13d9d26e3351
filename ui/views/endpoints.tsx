/** Shows the endpoints, and of one of them its facts, its life, who may reach it, and what was dropped. */
import { useMemo, useState } from "preact/hooks";
import type { EndpointModel } from "../../agent/api/endpoint-schema.ts";
import { type LiveState, useAnswer } from "../ask.ts";
import type { EndpointDocument } from "../contract.ts";
import { duration, moment, plain, workloadOf } from "../format.ts";
import { Columns, Empty, Facts, FindForm, Mark, More, Name, Shown, type Tone } from "../parts.tsx";
import { Drops, Reach } from "./pod-policy.tsx";

interface ViewProps {
  readonly live: LiveState;
  /** Is the number of the endpoint that is chosen. */
  readonly chosen: string | undefined;
  choose(id: string | undefined): void;
}

const TONES: Readonly<Record<string, Tone>> = { ready: "ok", "not-ready": "failed", invalid: "failed", disconnected: "skipped" };

function toneOf({ status }: EndpointModel): Tone {
  return TONES[status.state] ?? "warning";
}

export function EndpointsView({ live, chosen, choose }: ViewProps) {
  const [filter, setFilter] = useState("");
  return (
    <div class={chosen === undefined ? "split" : "split open"}>
      <div class="main">
        <FindForm what="an endpoint" hint="Pod, address, interface or container" {...{ filter, setFilter }} />
        <Shown answer={live.endpoints}>{(endpoints) => <EndpointTable {...{ endpoints, filter, chosen, choose }} />}</Shown>
      </div>
      {chosen !== undefined && <EndpointPanel id={chosen} live={live} close={() => choose(undefined)} />}
    </div>
  );
}

const ROWS = 200;

interface TableProps {
  readonly endpoints: readonly EndpointModel[];
  readonly filter: string;
  readonly chosen: string | undefined;
  choose(id: string): void;
}

function EndpointTable({ endpoints, filter, chosen, choose }: TableProps) {
  const [most, setMost] = useState(ROWS);
  const wanted = filter.trim().toLowerCase();
  const found = useMemo(() => endpoints.filter((one) => wanted === "" || searchable(one).includes(wanted)), [endpoints, wanted]);
  if (endpoints.length === 0) return <Empty>No endpoint yet: it appears here with the first pod of this node.</Empty>;
  if (found.length === 0) return <Empty>No endpoint matches.</Empty>;
  return (
    <div class="scroll">
      <table class="endpoints">
        <Columns of={["Workload", "State", "Addresses", "Interface", "Added"]} />
        <tbody>
          {found.slice(0, most).map((one) => (
            <tr key={one.id} class={String(one.id) === chosen ? "chosen" : undefined}>
              <th scope="row">
                <button type="button" class="link" onClick={() => choose(String(one.id))}>
                  <Name of={workloadOf(one)} />
                </button>
              </th>
              <td>
                <Mark tone={toneOf(one)} label="" /> {one.status.state}
              </td>
              <td class="mono">{one.status.networking.addresses.map(({ address }) => address).join(" ")}</td>
              <td class="mono">
                <Name of={one.status.networking["interface-name"] ?? "–"} />
              </td>
              <td class="mono">{moment(one.status["committed-at"] ?? "not yet")}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <More of={found} what="endpoint" step={ROWS} {...{ most, setMost }} />
    </div>
  );
}

function searchable(endpoint: EndpointModel): string {
  const { networking, "external-identifiers": names } = endpoint.status;
  const addresses = networking.addresses.map(({ address }) => address);
  return [workloadOf(endpoint), ...addresses, networking["interface-name"] ?? "", names["container-id"]].join(" ").toLowerCase();
}

function EndpointPanel({ id, live, close }: { readonly id: string; readonly live: LiveState; close(): void }) {
  const { answer, isAsking } = useAnswer("endpoint", { id });
  return (
    <aside class="panel" aria-label={`Endpoint ${plain(id)}`}>
      <header>
        <h2>Endpoint {plain(id)}</h2>
        <button type="button" class="quiet" onClick={close}>
          Close
        </button>
      </header>
      <Shown answer={answer} isAsking={isAsking}>
        {(found) => <EndpointFacts of={found} />}
      </Shown>
      <Reach id={id} live={live} />
      <Drops id={id} live={live} />
    </aside>
  );
}

function EndpointFacts({ of }: { readonly of: EndpointDocument }) {
  const { status } = of;
  const { networking, attachment } = status;
  const pair = (...parts: readonly (string | undefined)[]) => parts.filter((part) => part !== undefined).join(" ");
  return (
    <>
      <Facts
        of={[
          ["workload", workloadOf(of)],
          ["state", `${status.state}, ${status.health.overallHealth}`],
          ["network", attachment.network],
          ["container", attachment["container-id"]],
          ["addresses", networking.addresses.map(({ address, grant }) => `${address} (${grant})`).join(", ")],
          ["host end", pair(networking["interface-name"], networking["host-mac"])],
          ["pod end", pair(networking["container-interface-name"], networking.mac)],
          ["sandbox", networking.netns],
          ["added", status["committed-at"] === undefined ? "not yet" : moment(status["committed-at"])],
          ["identity", status.identity === undefined ? undefined : `${status.identity.id} (${status.identity.labels.join(" ")})`],
        ]}
      />
      <h3>Its life</h3>
      <Timeline of={of.log} />
    </>
  );
}

const CODES: Readonly<Record<string, Tone>> = { OK: "ok", Warning: "warning", Failure: "failed", Disabled: "skipped" };

/** Shows the log, oldest first, each entry with the time since the one before. */
function Timeline({ of }: { readonly of: EndpointDocument["log"] }) {
  const entries = [...of].reverse();
  return (
    <ol class="timeline" aria-label="History, oldest first">
      {entries.map(({ timestamp, code, message, state }, index) => {
        const before = entries[index - 1];
        const since = before === undefined ? undefined : Date.parse(timestamp) - Date.parse(before.timestamp);
        return (
          <li key={`${timestamp} ${index}`} class={CODES[code] ?? "warning"}>
            <time dateTime={timestamp}>{since === undefined ? moment(timestamp) : `+${duration(since)}`}</time>
            <div>
              <strong>{plain(state)}</strong> <Name of={message} />
            </div>
          </li>
        );
      })}
    </ol>
  );
}
