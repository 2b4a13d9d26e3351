/** Shows pools, their blocks and each address, as a map and as a table, and explains the address that is chosen. */
import { useMemo, useState } from "preact/hooks";
import { answered } from "../answers.ts";
import { type LiveState, useAnswer } from "../ask.ts";
import { type BlockDocument, type PoolDocument, type PoolsDocument, SIGNS, type Sign, type Standing } from "../contract.ts";
import { counted, grouped, percent, plain } from "../format.ts";
import { AddressMap, addressOf } from "../map/address-map.tsx";
import { type MapSize, sizeFor } from "../map/layout.ts";
import { Empty, Facts, Name, Shown } from "../parts.tsx";
import { ExplanationView } from "./explanation.tsx";

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
      <label class="grow">
        <span class="hidden">Find a node, a block or an address</span>
        <input
          type="search"
          placeholder="Node or block; an address and Enter"
          value={filter}
          onInput={({ currentTarget }) => setFilter(currentTarget.value)}
        />
      </label>
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
      {blocks.length > most && (
        <button type="button" onClick={() => setMost(most + ROWS)}>
          Show more of {counted(blocks.length, "block")}
        </button>
      )}
    </div>
  );
}

/** Has its names as people write them. */
const FACTS: Readonly<Record<string, string>> = {
  freeAgain: "free again",
  sequenceNumber: "sequence number",
  alternateOwner: "other owner",
};

interface PanelProps {
  readonly address: string;
  readonly pools: readonly PoolDocument[];
  choose(address: string | undefined): void;
}

function AddressPanel({ address, pools, choose }: PanelProps) {
  const { answer, isAsking } = useAnswer("address", { ip: address });
  const explained = useAnswer("explain", { kind: "ip", name: address });
  const block = useMemo(() => pools.flatMap(({ blocks }) => blocks).find((one) => ordinalIn(one, address) !== undefined), [pools, address]);
  return (
    <aside class="panel" aria-label={`Address ${plain(address)}`}>
      <header>
        <h2 class="mono">
          <Name of={address} />
        </h2>
        <button type="button" class="quiet" onClick={() => choose(undefined)}>
          Close
        </button>
      </header>
      {block !== undefined && <BlockGrid block={block} address={address} choose={choose} />}
      <Shown answer={answer} isAsking={isAsking}>
        {({ address: _, ...facts }) => <Facts of={Object.entries(facts).map(([name, value]) => [FACTS[name] ?? name, value])} />}
      </Shown>
      <h3>Explained</h3>
      <Shown answer={explained.answer} isAsking={explained.isAsking}>
        {(found) => <ExplanationView of={found} />}
      </Shown>
    </aside>
  );
}

/** Draws so many addresses of a block as buttons. */
const GRID = 256;
const GRID_COLUMNS = 16;

function ordinalIn(block: BlockDocument, address: string): number | undefined {
  // Compares texts: both are written by the same function.
  if (block.cidr.includes(":") !== address.includes(":")) return undefined;
  for (let ordinal = 0; ordinal < Math.min(block.map.length, 4_096); ordinal++) if (addressOf(block, ordinal) === address) return ordinal;
  return undefined;
}

/** Is the same block for whoever does not see the map: a grid of buttons that arrow keys walk on. */
function BlockGrid({ block, address, choose }: { readonly block: BlockDocument; readonly address: string; choose(address: string): void }) {
  const chosen = ordinalIn(block, address) ?? 0;
  const from = Math.floor(chosen / GRID) * GRID;
  const length = Math.min(GRID, block.map.length - from);
  const rows = Array.from({ length: Math.ceil(length / GRID_COLUMNS) }, (_, row) => from + row * GRID_COLUMNS);
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: GRID_COLUMNS, ArrowUp: -GRID_COLUMNS }[event.key];
    const to = chosen + (by ?? 0);
    if (by === undefined || to < 0 || to >= block.map.length) return;
    event.preventDefault();
    choose(addressOf(block, to));
    const grid = event.currentTarget as HTMLElement;
    requestAnimationFrame(() => grid.querySelector<HTMLElement>("[tabindex='0']")?.focus());
  };
  return (
    <figure class="block">
      <figcaption>
        <span class="mono">{block.cidr}</span> {block.owner === null ? "without owner" : <Name of={block.owner} />}
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: arrow keys walk on the cells of this table */}
      <table role="grid" aria-label={`Addresses of block ${block.cidr}`} onKeyDown={onKeyDown}>
        <tbody>
          {rows.map((first) => (
            <tr key={first}>
              {Array.from({ length: Math.min(GRID_COLUMNS, block.map.length - first) }, (_, column) => (
                <AddressCell
                  key={first + column}
                  block={block}
                  ordinal={first + column}
                  isChosen={first + column === chosen}
                  choose={choose}
                />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}

interface CellProps {
  readonly block: BlockDocument;
  readonly ordinal: number;
  readonly isChosen: boolean;
  choose(address: string): void;
}

function AddressCell({ block, ordinal, isChosen, choose }: CellProps) {
  const standing = SIGNS[block.map.charAt(ordinal) as Sign] ?? "free";
  const text = addressOf(block, ordinal);
  const name = `${text} ${standing}`;
  return (
    <td>
      <button
        type="button"
        class={standing}
        aria-label={name}
        aria-current={isChosen}
        title={name}
        tabIndex={isChosen ? 0 : -1}
        onClick={() => choose(text)}
      />
    </td>
  );
}
