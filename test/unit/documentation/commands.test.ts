/**
 * Every command of the pages for administrators has a row here: the test that runs it as it stands in the page, or why none does. A command
 * that is new in a page fails this test until it has one.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { inlineCommandsOf, shellBlocksOf } from "../../support/page.ts";
import { ROOT } from "./pages.ts";

const DAEMONSET = "test/kubelet/daemonset.test.ts";
const CHART = "test/kubelet/chart.test.ts";
const BY_HAND = "test/system/docs/by-hand.test.ts";
const ADMINISTRATOR = "test/cluster/docs/administrator.test.ts";
const ROUTES = "test/cluster/docs/routes.test.ts";

/** Why no test runs a command. */
interface NotRun {
  readonly notRun: string;
}
const RELEASE: NotRun = {
  notRun:
    "needs npm's registry and the machine's list of packages, and the suites' sandbox has neither; the kubelet suite makes images from the same layer, which nodes pull from a registry",
};

/** Page → heading → who runs the commands of its shell blocks, all of them. */
const BLOCKS: Readonly<Record<string, Readonly<Record<string, readonly (string | NotRun)[]>>>> = {
  "how-to/install-cluster.md": {
    "## In a cluster": [DAEMONSET, DAEMONSET, DAEMONSET],
    "### With Helm": [CHART, CHART],
    "### The image": [RELEASE],
    "## By hand": [BY_HAND, BY_HAND],
  },
  "how-to/monitor.md": {
    "## Before a change": [DAEMONSET],
    "## Upgrade": [DAEMONSET],
    "### The whole release": [DAEMONSET],
    "## Drain a node": [ADMINISTRATOR],
    "## Back up": [ADMINISTRATOR],
    "### Alerts": [DAEMONSET],
    "## Remove": [DAEMONSET, DAEMONSET, BY_HAND],
  },
  "reference/controller.md": { "## Run it": [ADMINISTRATOR] },
  "reference/routes.md": { "## What is written to the kernel": [ROUTES], "## Beside Felix": [ROUTES] },
  "how-to/migrate-from-calico.md": {
    "## Before": [ADMINISTRATOR],
    "## To Tortie": [DAEMONSET],
    "## Back": [DAEMONSET, DAEMONSET, DAEMONSET],
  },
};

/** Page → command in a sentence → the test that runs it, and words of it by which that can be seen there. */
const INLINE: Readonly<Record<string, Readonly<Record<string, readonly [file: string, words: string] | NotRun>>>> = {
  "how-to/install-cluster.md": {
    "tortiectl install": ["test/system/installer/install.test.ts", 'command(host, "install"'],
    "calico component cni install": ["test/system/installer/install.test.ts", "host.install()"],
    "tortiectl install --watch": ["test/system/installer/install.test.ts", '["install", "--watch"'],
  },
  "how-to/monitor.md": {
    "kubectl -n kube-system rollout undo daemonset/tortie-node": [DAEMONSET, "kubectl -n kube-system rollout undo daemonset/tortie-node"],
    "tortiectl ipam check": [ADMINISTRATOR, 'commandsOf("how-to/migrate-from-calico.md", "## Before")'],
    'sqlite3 FILE ".backup COPY"': { notRun: "sqlite3 is no program of this project, and not among the packages that its tests install" },
    "tortiectl node status": [ROUTES, 'commandsOf("reference/routes.md", "## What is written to the kernel")'],
    "bash scripts/render-manifests beside-calico | kubectl delete -f -": [
      ADMINISTRATOR,
      "bash scripts/render-manifests beside-calico | kubectl delete -f -",
    ],
  },
  "reference/controller.md": {
    "tortie-controller --print-schema": [ADMINISTRATOR, "tortie-controller --print-schema"],
    "npm run bench -- --controller": { notRun: "a measurement: CONTRIBUTING.md says when it is made" },
  },
  "reference/routes.md": {
    "tortie-node --node-routes": ["test/support/three-nodes.ts", '"--node-routes"'],
    "tortie-node vxlan": { notRun: "no command, but the alias of a device" },
    'echo "84 tortie" > /etc/iproute2/rt_protos.d/tortie.conf': [ROUTES, 'echo "84 tortie" > /etc/iproute2/rt_protos.d/tortie.conf'],
    "tortiectl routes remove": ["test/system/tortiectl-command.test.ts", '"routes", "remove"'],
    "tortiectl node status": [ROUTES, 'commandsOf("reference/routes.md", "## What is written to the kernel")'],
    "ip route flush proto 84": [ROUTES, "ip route flush proto 84"],
  },
  "how-to/migrate-from-calico.md": {},
};

const source = (path: string) => readFileSync(join(ROOT, path), "utf8");

describe.each(Object.keys(BLOCKS))("docs/%s", (page) => {
  it("has no shell block without a row, and each row's test runs the blocks of its heading", () => {
    const rows = Object.entries(BLOCKS[page] ?? {}).flatMap(([heading, runners]) => runners.map((runner) => ({ heading, runner })));

    expect(shellBlocksOf(page).map(({ heading }) => heading)).toEqual(rows.map(({ heading }) => heading));
    for (const { heading, runner } of rows) {
      if (typeof runner === "string")
        expect({ runner, text: source(runner) }).toEqual({ runner, text: expect.stringContaining(`"${page}", "${heading}"`) });
      else expect(runner.notRun).not.toBe("");
    }
  });

  it("has no command in a sentence without a row, and each row's test runs it", () => {
    const rows = Object.entries(INLINE[page] ?? {});

    expect([...inlineCommandsOf(page)].sort()).toEqual(rows.map(([command]) => command).sort());
    for (const [command, row] of rows) {
      if ("notRun" in row) continue;
      const [file, words] = row;
      expect({ command, text: source(file) }).toEqual({ command, text: expect.stringContaining(words) });
    }
  });
});
