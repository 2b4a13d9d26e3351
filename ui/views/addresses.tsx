/** Shows pools, their blocks and each address, as a map and as a table, and explains the address that is chosen. */
import { useMemo, useState } from "preact/hooks";
import { answered } from "../answers.ts";
import type { LiveState } from "../ask.ts";
import { type BlockDocument, type PoolDocument, type PoolsDocument, SIGNS, type Standing } from "../contract.ts";
import { counted, grouped, percent, plain } from "../format.ts";
import { AddressMap, addressOf } from "../map/address-map.tsx";
import { type MapSize, sizeFor } from "../map/layout.ts";
import { Empty, Find, More, Name, Shown } from "../parts.tsx";
import { AddressPanel } from "./address-panel.tsx";

const STANDINGS: readonly Standing[] = Object.values(SIGNS);
/** Says what each is for whoever has not read docs/explanation/ipam.md. */
const MEANINGS: Readonly<Record<Standing, string>> = {
  used: "a pod has it",
  borrowed: "a pod of another node than the block's has it",
  cooling: "given back a moment ago",
  reserved: "never given out",
  free: "free",
};

interface ViewProps {
  readonly live: LiveState;
  /** Is the address that is chosen. */
  readonly chosen: string | undefined;
  choose(address: string | undefined): void;
}

export function AddressesView({ live, chosen, choose }: ViewProps) {
  const [form, setForm] = useState<"map" | "table">("map");
  const [size, setSize] = useState<MapSize>();
  const [filter, setFilter] = useState("");
  const pools = answered(live.pools)?.pools ?? [];
  const total = pools.reduce((sum, { blocks }) => sum + blocks.length, 0);
  return (
    <div class={chosen === undefined ? "split" : "split open"}>
      <div class="main">
        <Toolbar {...{ form, setForm, setSize, filter, setFilter, choose }} size={size ?? sizeFor(total)} />
        <Shown answer={live.pools}>
          {(document: PoolsDocument) => (
            <>
              <p class="muted source">
                <Name of={document.datastore} />
              </p>
              {document.pools.length === 0 && <Empty>No pools yet: the first pod of a network, or an IPPool, makes one.</Empty>}
              {document.pools.map((pool) => (
                <Pool key={pool.name} {...{ pool, form, filter, chosen, choose }} size={size ?? sizeFor(total)} />
              ))}
            </>
          )}
        </Shown>
      </div>
      {chosen !== undefined && <AddressPanel address={chosen} pools={pools} choose={choose} />}
    </div>
  );
}

interface ToolbarProps {
  readonly form: "map" | "table";
  setForm(form: "map" | "table"): void;
  readonly size: MapSize;
  setSize(size: MapSize): void;
  readonly filter: string;
  setFilter(filter: string): void;
  choose(address: string): void;
}

function Toolbar({ form, setForm, size, setSize, filter, setFilter, choose }: ToolbarProps) {
  const submit = (event: Event) => {
    event.preventDefault();
    if (/^[0-9a-f.:]+$/i.test(filter) && /[.:].*[.:]/.test(filter)) choose(filter);
  };
  return (
    <form class="toolbar" onSubmit={submit}>
      <Find what="a node, a block or an address" hint="Node or block; an address and Enter" {...{ filter, setFilter }} />
      <Choice legend="Form" options={["map", "table"]} value={form} onChange={setForm} />
      {form === "map" && <Choice legend="Size" options={["small", "medium", "large"]} value={size} onChange={setSize} />}
      <ul class="legend" aria-label="Colours of the map">
        {STANDINGS.map((standing) => (
          <li key={standing} title={MEANINGS[standing]}>
            <span class={`swatch ${standing}`} aria-hidden="true" />
            {standing}
          </li>
        ))}
      </ul>
    </form>
  );
}

interface ChoiceProps<T extends string> {
  readonly legend: string;
  readonly options: readonly T[];
  readonly value: T;
  onChange(value: T): void;
}

function Choice<T extends string>({ legend, options, value, onChange }: ChoiceProps<T>) {
  return (
    <fieldset class="choice">
      <legend class="hidden">{legend}</legend>
      {options.map((option) => (
        <label key={option} class={option === value ? "on" : undefined}>
          <input type="radio" name={legend} checked={option === value} onChange={() => onChange(option)} />
          {option}
        </label>
      ))}
    </fieldset>
  );
}

interface PoolProps {
  readonly pool: PoolDocument;
  readonly form: "map" | "table";
  readonly size: MapSize;
  readonly filter: string;
  readonly chosen: string | undefined;
  choose(address: string): void;
}

function Pool({ pool, form, size, filter, chosen, choose }: PoolProps) {
  const wanted = filter.trim().toLowerCase();
  const blocks = useMemo(
    () => (wanted === "" ? pool.blocks : pool.blocks.filter(({ cidr, owner }) => `${cidr} ${owner ?? ""}`.toLowerCase().includes(wanted))),
    [pool.blocks, wanted],
  );
  const { capacity, free, name, cidr, limits } = pool;
  return (
    <section class="pool" aria-label={`Pool ${plain(name)}`}>
      <header>
        <h2 class="mono">{cidr}</h2>
        <span>
          pool <Name of={name} />
        </span>
        {limits.map((limit) => (
          <span key={limit} class="tag warning">
            <Name of={limit} />
          </span>
        ))}
        <span class="figures">
          <strong>{percent(BigInt(capacity) - BigInt(free), capacity)}</strong> taken · {counted(pool.blocks.length, "block")} ·{" "}
          {grouped(capacity)} addresses
        </span>
      </header>
      <Share of={pool} />
      {pool.blocks.length === 0 && <Empty>No block yet: a node claims one with its first pod.</Empty>}
      {pool.blocks.length > 0 && blocks.length === 0 && <Empty>No block of this pool matches.</Empty>}
      {blocks.length > 0 && form === "map" && <AddressMap label={cidr} blocks={blocks} size={size} selected={chosen} onSelect={choose} />}
      {blocks.length > 0 && form === "table" && <BlockTable blocks={blocks} choose={choose} />}
    </section>
  );
}

/** Shows how a pool is divided, as a bar and in words. */
function Share({ of }: { readonly of: PoolDocument }) {
  const parts = STANDINGS.filter((standing) => standing === "used" || standing === "free" || BigInt(of[standing]) > 0n);
  return (
    <div class="share">
      <div class="bar" aria-hidden="true">
        {parts.map((standing) => (
          <span key={standing} class={standing} style={{ flexGrow: String(Number(of[standing]) / Math.max(1, Number(of.capacity))) }} />
        ))}
      </div>
      <p class="muted">{parts.map((standing) => `${grouped(of[standing])} ${standing}`).join(", ")}</p>
    </div>
  );
}

const ROWS = 100;

function BlockTable({ blocks, choose }: { readonly blocks: readonly BlockDocument[]; choose(address: string): void }) {
  const [most, setMost] = useState(ROWS);
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Block</th>
            <th scope="col">Owner</th>
            {STANDINGS.map((standing) => (
              <th key={standing} scope="col" class="number">
                {standing}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {blocks.slice(0, most).map((block) => (
            <tr key={block.cidr}>
              <th scope="row">
                <button type="button" class="link mono" onClick={() => choose(addressOf(block, 0))}>
                  {block.cidr}
                </button>
              </th>
              <td>{block.owner === null ? <span class="muted">none</span> : <Name of={block.owner} />}</td>
              {STANDINGS.map((standing) => (
                <td key={standing} class="number">
                  {grouped(block[standing])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <More of={blocks} what="block" step={ROWS} {...{ most, setMost }} />
    </div>
  );
}
