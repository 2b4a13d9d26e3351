/** Shows the pods of a cluster with what their nodes' agents say of them. */
import { useMemo, useState } from "preact/hooks";
import type { LiveState } from "../ask.ts";
import type { PodDocument } from "../contract.ts";
import { moment } from "../format.ts";
import { Columns, Empty, FindForm, Mark, More, Name, Shown, type Tone } from "../parts.tsx";

export function PodsView({ live }: { readonly live: LiveState }) {
  const [filter, setFilter] = useState("");
  return (
    <div class="main">
      <FindForm what="a pod" hint="Pod, node or address" {...{ filter, setFilter }} />
      <Shown answer={live.pods}>{(pods) => <PodTable pods={pods} filter={filter} />}</Shown>
    </div>
  );
}

const ROWS = 200;

function PodTable({ pods, filter }: { readonly pods: readonly PodDocument[]; readonly filter: string }) {
  const [most, setMost] = useState(ROWS);
  const wanted = filter.trim().toLowerCase();
  const found = useMemo(
    () =>
      pods.filter(({ namespace, pod, node, addresses }) =>
        `${namespace}/${pod} ${node} ${addresses.join(" ")}`.toLowerCase().includes(wanted),
      ),
    [pods, wanted],
  );
  if (pods.length === 0) return <Empty>No pod with a network of its own yet.</Empty>;
  if (found.length === 0) return <Empty>No pod matches.</Empty>;
  return (
    <div class="scroll">
      <table>
        <Columns of={["Pod", "State", "Node", "Addresses", "Since"]} />
        <tbody>
          {found.slice(0, most).map((one) => (
            <PodRow key={`${one.namespace}/${one.pod}`} of={one} />
          ))}
        </tbody>
      </table>
      <More of={found} what="pod" step={ROWS} {...{ most, setMost }} />
    </div>
  );
}

const TONES: Readonly<Record<string, Tone>> = { ready: "ok", attached: "ok", "not-ready": "failed" };

function PodRow({ of }: { readonly of: PodDocument }) {
  const { namespace, pod, node, state, addresses, since, problem } = of;
  return (
    <tr>
      <th scope="row">
        <Name of={`${namespace}/${pod}`} />
        {problem !== undefined && (
          <p class="muted">
            <Name of={problem} />
          </p>
        )}
      </th>
      <td>
        <Mark tone={problem === undefined ? (TONES[state] ?? "warning") : "failed"} label="" /> <Name of={state} />
      </td>
      <td>
        <Name of={node} />
      </td>
      <td class="mono">
        {addresses.length === 0
          ? "–"
          : addresses.map((address) => (
              <a key={address} href={`#/addresses/${encodeURIComponent(address)}`}>
                <Name of={address} />{" "}
              </a>
            ))}
      </td>
      <td class="mono">{moment(since)}</td>
    </tr>
  );
}
