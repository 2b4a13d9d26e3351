/** The commands of docs/how-to/install-host.md, docs/how-to/uninstall.md and docs/how-to/migrate-from-calico.md for one host, as they stand, on a host whose /etc and /opt are its own. */

import { fresh } from "../../support/fixtures.ts";
import { HAS_FORWARDER } from "../../support/node.ts";
import { commandsOf } from "../../support/page.ts";
import { PageHost } from "../../support/page-host.ts";

const [BY_HAND = "", LOCAL = ""] = commandsOf("how-to/install-host.md", "## By hand");
const [REMOVE = ""] = commandsOf("how-to/uninstall.md", "## From one host");
const [MOVE = ""] = commandsOf("how-to/migrate-from-calico.md", "## One node by hand");
const [IN_PLACE = ""] = commandsOf("how-to/migrate-from-calico.md", "### In place of Calico's files");
const KUBECONFIG = "calico-kubeconfig";
const INSTALLED = [
  ["tortie", "tortie-ipam", ...(HAS_FORWARDER ? ["tortie-main"] : []), "tortiectl"],
  [".tortie-install", "10-tortie.conflist", KUBECONFIG],
];

/** As README's first one: a network without a server. */
const BY_SOMEBODY = JSON.stringify({
  name: "pods",
  cniVersion: "1.1.0",
  plugins: [
    {
      type: "tortie",
      datastore_type: "local",
      datastore_path: "/opt/pods.db",
      ipam: { type: "tortie-ipam", pools: [{ cidr: "10.77.0.0/24" }] },
    },
  ],
});
/** One pod, attached and removed, as a runtime does it. */
const ADD = [
  "mkdir -p /run/netns; touch /run/netns/pod; unshare --net=/run/netns/pod true",
  "tortiectl cni add --json --cni-path /opt/cni/bin:/usr/lib/cni /etc/cni/net.d/10-tortie.conflist /run/netns/pod",
  "tortiectl cni del --cni-path /opt/cni/bin:/usr/lib/cni /etc/cni/net.d/10-tortie.conflist /run/netns/pod >&2",
  "umount /run/netns/pod",
].join("\n");

const stateOf = (host: PageHost) => [host.made("/opt/cni/bin"), host.made("/etc/cni/net.d")];

const host = fresh(PageHost.create);

describe("One host, by hand", () => {
  it("is installed and left as it was by the three commands of docs/how-to/install-host.md", async () => {
    // What every host with a runtime has, and the kubeconfig that the page names.
    await host.run("mkdir -p /opt/cni/bin /etc/cni/net.d; echo '{}' > /etc/cni/net.d/calico-kubeconfig");
    const [dry = "", install = "", uninstall = "", ...others] = BY_HAND.trim().split("\n");
    expect(others).toEqual([]);

    expect(await host.run(dry)).toContain("would write /etc/cni/net.d/10-tortie.conflist");
    expect(stateOf(host)).toEqual([[], [KUBECONFIG]]);

    expect(await host.run(install)).toMatch(/\ndone\n$/);
    expect(stateOf(host)).toEqual(INSTALLED);

    expect(await host.run(uninstall)).toContain("/opt/cni/bin/tortiectl removed");
    expect(stateOf(host)).toEqual([[], [KUBECONFIG]]);
  });

  it("is left by the tortiectl that the installation has put there, as docs/how-to/uninstall.md says", async () => {
    await host.run("mkdir -p /opt/cni/bin /etc/cni/net.d; echo '{}' > /etc/cni/net.d/calico-kubeconfig");
    await host.run("tortiectl install");
    expect(stateOf(host)).toEqual(INSTALLED);

    await host.run(REMOVE);

    expect(stateOf(host)).toEqual([[], [KUBECONFIG]]);
  });

  it("W2: gets nothing where there is no cluster, and with the list of docs/how-to/install-host.md a network that pods can be attached to", async () => {
    await host.run("mkdir -p /opt/cni/bin /etc/cni/net.d");
    expect(await host.run("if tortiectl install; then exit 9; fi")).toContain("/etc/cni/net.d/calico-kubeconfig is not there");
    expect(stateOf(host)).toEqual([[], []]);

    await host.run(LOCAL);

    expect(await host.run(ADD)).toMatch(/"address": ?"10\.244\./);
  });

  it("W2: keeps a working list for another network, says what would differ, and a pod is attached afterwards", async () => {
    await host.run(`mkdir -p /opt/cni/bin /etc/cni/net.d; echo '${BY_SOMEBODY}' > /etc/cni/net.d/10-tortie.conflist`);

    const said = await host.run("tortiectl install");

    for (const words of ['name is "pods"', 'datastore_type is "local"', "ipam is "]) expect(said).toContain(words);
    expect(await host.run("cat /etc/cni/net.d/10-tortie.conflist")).toBe(`${BY_SOMEBODY}\n`);
    expect(await host.run(ADD)).toMatch(/"address": ?"10\.77\./);
    await host.run("tortiectl uninstall");
    expect(await host.run("cat /etc/cni/net.d/10-tortie.conflist")).toBe(`${BY_SOMEBODY}\n`);
    expect(await host.run("tortiectl install --force")).toContain("10-tortie.conflist written");
    expect(await host.run("cat /etc/cni/net.d/10-tortie.conflist")).toContain("k8s-pod-network");
  });

  it("is moved from Calico's plugins by the commands of docs/how-to/migrate-from-calico.md, whose list comes before Calico's", async () => {
    await host.run("mkdir -p /opt/cni/bin /etc/cni/net.d; echo '{}' > /etc/cni/net.d/10-calico.conflist");

    await host.run(MOVE);

    expect(host.made("/opt/cni/bin")).toEqual(["tortie", "tortie-ipam", "tortie-main", "tortiectl"]);
    expect(host.made("/etc/cni/net.d")).toEqual(["05-tortie.conflist", "10-calico.conflist"]);
    expect(await host.run("/opt/cni/bin/tortie -v; /opt/cni/bin/tortiectl --version")).toMatch(/^(\d+\.\d+\.\d+\n){2}$/);

    await host.run(IN_PLACE);
    expect(
      await host.run("CNI_COMMAND=VERSION /opt/cni/bin/calico </dev/null; CNI_COMMAND=VERSION /opt/cni/bin/calico-ipam </dev/null"),
    ).toMatch(/("1\.1\.0".*){2}/s);
  });
});
