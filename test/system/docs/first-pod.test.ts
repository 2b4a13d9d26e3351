/** The tutorial docs/tutorials/first-pod.md, as it stands: its list, all of its commands in their order, and what they print. */
import { readFileSync } from "node:fs";
import { shellBlocksOf } from "../../support/page.ts";
import { PageHost } from "../../support/page-host.ts";

const [, LIST = ""] = /^```json\n(.*?)^```$/ms.exec(readFileSync("docs/tutorials/first-pod.md", "utf8")) ?? [];
const COMMANDS = shellBlocksOf("tutorials/first-pod.md")
  .map(({ text }) => text)
  .join("");

it("docs/tutorials/first-pod.md attaches two pods, finds what was broken, and takes everything away", async () => {
  await using host = await PageHost.create();

  const said = await host.run(`mkdir -p /etc/cni/net.d; cat >/etc/cni/net.d/10-tortie.conflist <<'END'\n${LIST}END\n${COMMANDS}`);

  expect(said.match(/^ok .*$/gm)).toEqual([
    "ok eth0 of /run/netns/blue is attached to network pods",
    "ok eth0 of /run/netns/green is attached to network pods",
    expect.stringContaining("blocks, affinities, handles and endpoints agree"),
    "ok eth0 of /run/netns/blue is detached from network pods",
    "ok eth0 of /run/netns/blue is attached to network pods",
    "ok eth0 of /run/netns/blue is as network pods made it",
    "ok eth0 of /run/netns/blue is detached from network pods",
    "ok eth0 of /run/netns/green is detached from network pods",
  ]);
  for (const words of ["1 file: 0 errors, 0 warnings", "default via 169.254.1.1 dev eth0", " 0% packet loss", "that is what CHECK is for"])
    expect(said).toContain(words);
  expect(host.made("/opt/cni/bin")).toEqual([]);
  expect(host.made("/etc/cni/net.d")).toEqual([]);
});
