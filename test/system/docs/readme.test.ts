/** README's way to try it on one host, as it stands: its list, its commands. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { shellBlocksOf } from "../../support/page.ts";
import { PageHost } from "../../support/page-host.ts";

const README = readFileSync("README.md", "utf8");
const [, LIST = ""] = /^```json\n(.*?)^```$/ms.exec(README) ?? [];
const COMMANDS = shellBlocksOf("../README.md").find(({ text }) => text.includes("tortiectl cni"))?.text;

it("README's list and commands attach a namespace, check it and detach it", async () => {
  expect(JSON.parse(LIST)).toMatchObject({ cniVersion: "1.1.0", plugins: [{ type: "tortie" }] });
  await using host = await PageHost.create();
  if (COMMANDS === undefined) throw new Error("README has no block of commands that call tortiectl cni");
  const put = `mkdir -p /etc/cni/net.d; cat >/etc/cni/net.d/10-tortie.conflist <<'END'\n${LIST}END\n`;

  const said = await host.run(`${put}${COMMANDS}ip netns del trial`);

  expect(said.match(/^ok .*$/gm)).toEqual([
    "ok eth0 of /run/netns/trial is attached to network pods",
    "ok eth0 of /run/netns/trial is as network pods made it",
    "ok eth0 of /run/netns/trial is detached from network pods",
  ]);
  expect(said).toMatch(/^ {2}address {4}10\.244\./m);
});

it("README is short, and shows what the demo says", () => {
  expect(README.trimEnd().split("\n").length).toBeLessThanOrEqual(80);
  const claims = [...README.matchAll(/^ {2}✓ (.*)$/gm)].map(([, claim = ""]) => claim);
  const demo = readdirSync("scripts/demonstration")
    .map((name) => readFileSync(join("scripts/demonstration", name), "utf8"))
    .join("");
  expect(claims.length).toBeGreaterThan(1);
  expect(claims.filter((claim) => !demo.includes(claim))).toEqual([]);
});
