/** The one page of figures, and README, say what the bench's page has. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./pages.ts";

const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const BENCH = read("docs/project/benchmarks.md");

function measured(row: string): number {
  const [, figure] = new RegExp(`^\\| ${row.replace("+", "\\+")} \\| ([\\d.]+) \\|`, "m").exec(BENCH) ?? [];
  if (figure === undefined) throw new Error(`no figure of "${row}"`);
  return Number(figure);
}

/** With the agent beside Calico: by direct mode, which was measured beside Calico. */
function besideCalico(verb: string): readonly [alone: number, together: number] {
  const alone = measured(`${verb} alone, of direct mode`) * measured(`direct mode: ${verb} alone, of Calico's plugins`);
  const together = measured(`60 ${verb}s at once, of direct mode`) * measured(`direct mode: 60 ${verb}s at once, of Calico's plugins`);
  return [alone, together];
}

it.each(["ADD", "DEL"])("docs/explanation/speed.md has the bench's figures of %s", (verb) => {
  const rows = [
    ["with the agent, API server | Calico's plugins", ...besideCalico(verb)],
    [
      "without the agent, API server | Calico's plugins",
      measured(`direct mode: ${verb} alone, of Calico's plugins`),
      measured(`direct mode: 60 ${verb}s at once, of Calico's plugins`),
    ],
    [
      "with the agent, local datastore | `ptp` with `host-local`",
      measured(`${verb} alone, of ptp + host-local`),
      measured(`60 ${verb}s at once, of ptp + host-local`),
    ],
  ] as const;
  const page = read("docs/explanation/speed.md");
  for (const [row, alone, together] of rows) expect(page).toContain(`| ${verb} ${row} | ${alone.toFixed(2)} | ${together.toFixed(2)} |`);
});

it("README has the bench's figures of an ADD", () => {
  const [alone, together] = besideCalico("ADD").map((figure) => figure.toFixed(2));
  const readme = read("README.md").replaceAll(/\s+/g, " ");
  const without = [measured("direct mode: ADD alone, of Calico's plugins"), measured("direct mode: 60 ADDs at once, of Calico's plugins")];
  expect(readme).toContain(
    `an ADD takes ${alone} of their time with the agent and ${without[0]} without it; of 60 at once, ${together} and ${without[1]}`,
  );
});
