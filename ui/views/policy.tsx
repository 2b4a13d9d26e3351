/** Shows the policies of this node, and answers whether a connection would pass. */
import { useState } from "preact/hooks";
import type { NodePolicy, PolicyExplanation, PolicyModel } from "../../agent/api/policy-schema.ts";
import { answered } from "../answers.ts";
import { type LiveState, useAnswer } from "../ask.ts";
import { workloadOf } from "../format.ts";
import { Columns, Empty, Mark, Name, Shown, type Tone } from "../parts.tsx";

export function PolicyView({ live }: { readonly live: LiveState }) {
  const { answer, isAsking, again } = useAnswer("policies", {});
  return (
    <div class="main">
      <Question live={live} />
      <section class="group">
        <h2>
          Policies{" "}
          <button type="button" class="quiet" onClick={again}>
            Look again
          </button>
        </h2>
        <Shown answer={answer} isAsking={isAsking}>
          {(found) => <Policies of={found} />}
        </Shown>
      </section>
    </div>
  );
}

function Policies({ of }: { readonly of: NodePolicy }) {
  const troubles = [
    ...of.gaps,
    ...of.conflicts.map(({ address, pods }) => `${address} is claimed by ${pods.join(" and ")}: for policies it is nobody's`),
    ...of.unread.map(({ kind, ...one }) => `${kind}: at least ${one["at-least"]}, and Tortie enforces none of them`),
  ];
  return (
    <>
      <ul class="results">
        {troubles.map((text) => (
          <li key={text}>
            <Mark tone="warning" />
            <p>
              <Name of={text} />
            </p>
          </li>
        ))}
      </ul>
      {of.policies.length === 0 ? (
        <Empty>No policy: every connection is allowed.</Empty>
      ) : (
        <div class="scroll">
          <table>
            <Columns of={["Policy", "State", "Directions", "Selects here"]} />
            <tbody>
              {of.policies.map((policy) => (
                <PolicyRow key={policy.uid} of={policy} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

function PolicyRow({ of }: { readonly of: PolicyModel }) {
  const [tone, state] = stateOf(of);
  return (
    <tr>
      <th scope="row">
        <Name of={`${of.namespace}/${of.name}`} />
      </th>
      <td>
        <Mark tone={tone} label="" /> <Name of={state} />
      </td>
      <td>{of.directions.join(", ")}</td>
      <td>
        <Name of={of.endpoints.map((endpoint) => endpoint.pod ?? endpoint["host-interface"]).join(", ") || "–"} />
      </td>
    </tr>
  );
}

function stateOf({ problem, realised, pending }: PolicyModel): readonly [Tone, string] {
  if (problem !== undefined) return ["failed", `invalid: ${problem}`];
  if (realised) return ["ok", "in force"];
  return ["warning", pending.length === 0 ? "pending" : `pending for ${pending.length}`];
}

interface Asked {
  readonly from: string;
  readonly to: string;
  readonly port: string;
}

function Question({ live }: { readonly live: LiveState }) {
  const [draft, setDraft] = useState<Asked>({ from: "", to: "", port: "80" });
  const [asked, setAsked] = useState<Asked>();
  const { answer, isAsking, again } = useAnswer("reach", asked && { ...asked });
  const field = (name: keyof Asked, label: string, hint: string) => (
    <label>
      {label}
      <input
        required
        list={name === "port" ? undefined : "ends"}
        placeholder={hint}
        value={draft[name]}
        onInput={({ currentTarget }) => setDraft({ ...draft, [name]: currentTarget.value })}
      />
    </label>
  );
  const submit = (event: Event) => {
    event.preventDefault();
    setAsked(draft);
    again();
  };
  return (
    <section class="group">
      <h2>Would it pass?</h2>
      <form class="question" onSubmit={submit}>
        {field("from", "From", "shop/web, an address")}
        {field("to", "To", "shop/db, an address")}
        {field("port", "Port", "5432, 53/udp, icmp")}
        <button type="submit" disabled={isAsking}>
          Ask
        </button>
        <datalist id="ends">
          {(answered(live.endpoints) ?? []).map((one) => (
            <option key={one.id} value={workloadOf(one)} />
          ))}
        </datalist>
      </form>
      {asked !== undefined && (
        <Shown answer={answer} isAsking={isAsking}>
          {(found) => <Verdicts of={found} />}
        </Shown>
      )}
    </section>
  );
}

function Verdicts({ of }: { readonly of: PolicyExplanation }) {
  return (
    <ul class="results">
      {of.verdicts.map(({ verdict, source, destination, egress, ingress, notes }) => (
        <li key={`${source} ${destination}`}>
          <Mark tone={verdict === "allow" ? "ok" : "failed"} label="" />
          <div>
            <p>
              <strong>{verdict === "allow" ? "allowed" : "denied"}</strong>{" "}
              <span class="mono">
                {source} → {destination}
              </span>
            </p>
            {[egress, ingress].map((side) =>
              side === undefined ? null : (
                <p key={side.direction}>
                  <span class="tag">{side.direction}</span> <Name of={side.reason} />
                </p>
              ),
            )}
            {notes.map((note) => (
              <p key={note} class="muted">
                <Name of={note} />
              </p>
            ))}
          </div>
        </li>
      ))}
    </ul>
  );
}
