/** Shows the address that is chosen: its facts, its block as a grid of buttons, and its explanation. */
import { useMemo } from "preact/hooks";
import { useAnswer } from "../ask.ts";
import { type BlockDocument, type PoolDocument, SIGNS, type Sign } from "../contract.ts";
import { plain } from "../format.ts";
import { addressOf } from "../map/address-map.tsx";
import { Facts, Name, Shown } from "../parts.tsx";
import { ExplanationView } from "./explanation.tsx";

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

export function AddressPanel({ address, pools, choose }: PanelProps) {
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
