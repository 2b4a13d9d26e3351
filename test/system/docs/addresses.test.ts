/** The lists and commands of docs/how-to/fixed-addresses.md and docs/how-to/dual-stack.md for one host, as they stand. */
import { readFileSync } from "node:fs";
import { commandsOf } from "../../support/page.ts";
import { PageHost } from "../../support/page-host.ts";

const FIXED = commandsOf("how-to/fixed-addresses.md", "## On one host").join("");
const BOTH = commandsOf("how-to/dual-stack.md", "## On one host").join("");

/** The first list of a page, put where its commands look for it. */
function listOf(page: string): string {
  const [, list = ""] = /^```json\n(.*?)^```$/ms.exec(readFileSync(`docs/${page}`, "utf8")) ?? [];
  return `mkdir -p /etc/cni/net.d; cat >/etc/cni/net.d/10-tortie.conflist <<'END'\n${list}END\n`;
}

it("docs/how-to/fixed-addresses.md gives the address and the MAC that are asked for", async () => {
  await using host = await PageHost.create();

  const said = await host.run(`${listOf("how-to/fixed-addresses.md")}${FIXED}ip netns del fixed`);

  expect(said).toMatch(/^ {2}address {4}10\.244\.9\.9\/32/m);
  expect(said).toMatch(/^ {2}interface .*02:00:5e:10:00:01/m);
  expect(said).toContain("10.244.9.9 is used");
  expect(said).toMatch(/^ok .* is detached/m);
});

it("docs/how-to/dual-stack.md gives an address and a default route of each family", async () => {
  await using host = await PageHost.create();

  const said = await host.run(`${listOf("how-to/dual-stack.md")}${BOTH}ip netns del dual`);

  expect(said).toMatch(/^ {2}address {4}10\.244\./m);
  expect(said).toMatch(/^ {2}address {4}fd00:244::/m);
  expect(said).toMatch(/^default via fe80::ecee:eeff:feee:eeee dev eth0/m);
});
