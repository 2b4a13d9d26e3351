/** Shows the other nodes with the routes that this node's kernel has to them, direct and through VXLAN. */
import { answered } from "../answers.ts";
import { type LiveState, useAnswer } from "../ask.ts";
import type { PoolDocument, RouteDocument } from "../contract.ts";
import { counted } from "../format.ts";
import { Columns, Empty, Name, Shown } from "../parts.tsx";

export function RoutesView({ live }: { readonly live: LiveState }) {
  const { answer, isAsking, again } = useAnswer("routes", {});
  const owners = ownersOf(answered(live.pools)?.pools ?? []);
  return (
    <div class="main">
      <div class="toolbar">
        <button type="button" onClick={again} disabled={isAsking}>
          Look again
        </button>
      </div>
      <Shown answer={answer} isAsking={isAsking}>
        {({ routes }) => <Nodes of={routes} owners={owners} />}
      </Shown>
    </div>
  );
}

/** Block → the node that owns it. */
function ownersOf(pools: readonly PoolDocument[]): ReadonlyMap<string, string> {
  return new Map(
    pools.flatMap(({ blocks }) =>
      blocks.flatMap(({ cidr, owner }) => (owner?.startsWith("host:") === true ? [[cidr, owner.slice("host:".length)] as const] : [])),
    ),
  );
}

const KINDS = { direct: "direct", vxlan: "VXLAN", blackhole: "kept here" } as const;

function Nodes({ of, owners }: { readonly of: readonly RouteDocument[]; readonly owners: ReadonlyMap<string, string> }) {
  if (of.length === 0) return <Empty>No routes to other nodes: an agent with --node-routes makes them.</Empty>;
  const nodes = Map.groupBy(
    of.filter(({ kind }) => kind !== "blackhole"),
    ({ kind, peer, gateway }) => `${kind} ${peer ?? gateway ?? "unknown"}`,
  );
  const kept = of.filter(({ kind }) => kind === "blackhole");
  // A node of both families has a way in each.
  const names = (wanted: readonly RouteDocument["kind"][]) =>
    new Set(
      [...nodes].flatMap(([way, routes]) => (routes.some(({ kind }) => wanted.includes(kind)) ? [ownerOf(routes, owners) ?? way] : [])),
    ).size;
  return (
    <>
      <p class="lead">
        {counted(names(["direct", "vxlan"]), "node")}: {names(["direct"])} reached directly, {names(["vxlan"])} through VXLAN.
      </p>
      <div class="scroll">
        <table class="routes">
          <Columns of={["Node", "Way", "Address", "Device", "Leads to"]} />
          <tbody>
            {[...nodes].map(([key, routes]) => (
              <NodeRow key={key} of={routes} owners={owners} />
            ))}
            {kept.length > 0 && <NodeRow of={kept} owners={new Map()} name="this node" />}
          </tbody>
        </table>
      </div>
    </>
  );
}

interface RowProps {
  readonly of: readonly RouteDocument[];
  readonly owners: ReadonlyMap<string, string>;
  readonly name?: string;
}

function ownerOf(routes: readonly RouteDocument[], owners: ReadonlyMap<string, string>): string | undefined {
  return routes.map(({ destination }) => owners.get(destination)).find((one) => one !== undefined);
}

function NodeRow({ of, owners, name }: RowProps) {
  const [first] = of;
  if (first === undefined) return null;
  const owner = name ?? ownerOf(of, owners) ?? "not named by a block";
  return (
    <tr>
      <th scope="row">
        <Name of={owner} />
      </th>
      <td>
        <span class={`way ${first.kind}`}>{KINDS[first.kind]}</span>
      </td>
      <td class="mono">{first.peer ?? first.gateway ?? "–"}</td>
      <td class="mono">
        <Name of={first.device ?? "–"} />
      </td>
      <td class="mono">{of.map(({ destination }) => destination).join(" ")}</td>
    </tr>
  );
}
