/** The commands of docs/install.md and docs/operate.md for one host, as they stand, on a host whose /etc and /opt are its own. */
import { commandsOf } from "../../support/page.ts";
import { PageHost } from "../../support/page-host.ts";

const [BY_HAND = ""] = commandsOf("install.md", "## By hand");
const REMOVE = commandsOf("operate.md", "## Remove").at(-1) ?? "";
const INSTALLED = [
  ["tortie", "tortie-ipam", "tortiectl"],
  [".tortie-install", "10-tortie.conflist"],
];

const stateOf = (host: PageHost) => [host.made("/opt/cni/bin"), host.made("/etc/cni/net.d")];

describe("One host, by hand", () => {
  it("is installed and left as it was by the three commands of docs/install.md", async () => {
    await using host = await PageHost.create();
    // What every host with a runtime has.
    await host.run("mkdir -p /opt/cni/bin /etc/cni/net.d");
    const [dry = "", install = "", uninstall = "", ...others] = BY_HAND.trim().split("\n");
    expect(others).toEqual([]);

    expect(await host.run(dry)).toContain("would write /etc/cni/net.d/10-tortie.conflist");
    expect(stateOf(host)).toEqual([[], []]);

    expect(await host.run(install)).toMatch(/\ndone\n$/);
    expect(stateOf(host)).toEqual(INSTALLED);

    expect(await host.run(uninstall)).toContain("/opt/cni/bin/tortiectl removed");
    expect(stateOf(host)).toEqual([[], []]);
  });

  it("is left by the tortiectl that the installation has put there, as docs/operate.md says", async () => {
    await using host = await PageHost.create();
    await host.run("mkdir -p /opt/cni/bin /etc/cni/net.d");
    await host.run("tortiectl install");
    expect(stateOf(host)).toEqual(INSTALLED);

    await host.run(REMOVE);

    expect(stateOf(host)).toEqual([[], []]);
  });
});
