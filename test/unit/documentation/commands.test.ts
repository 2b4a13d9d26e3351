/**
 * Every command of the pages for administrators has a row here: the test that runs it as it stands in the page, or why none does. A command
 * that is new in a page fails this test until it has one.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { inlineCommandsOf, shellBlocksOf } from "../../support/page.ts";
import { ROOT } from "./pages.ts";

const DAEMONSET = "test/kubelet/daemonset.test.ts";
const CHART = "test/kubelet/chart.test.ts";
const BY_HAND = "test/system/docs/by-hand.test.ts";
const ADMINISTRATOR = "test/cluster/docs/administrator.test.ts";
const ROUTES = "test/cluster/docs/routes.test.ts";
const ADDRESSES = "test/system/docs/addresses.test.ts";
const POLICY = "test/system/docs/policy.test.ts";
const EXPLAIN = "test/system/docs/explain.test.ts";
const PAINS = "test/system/explain/pains.test.ts";
const CONNECTIVITY = "test/system/doctor/connectivity.test.ts";
const CONNECTIVITY_IN_CLUSTER = "test/kubelet/connectivity.test.ts";
const KUBECTL = "test/cluster/tortiectl/kubectl.test.ts";
const BUNDLE = "test/system/doctor/bundle.test.ts";
const FIRST_POD = "test/system/docs/first-pod.test.ts";

/** Why no test runs a command. */
interface NotRun {
  readonly notRun: string;
}
const RELEASE: NotRun = {
  notRun:
    "needs npm's registry and the machine's list of packages, and the suites' sandbox has neither; the kubelet suite makes images from the same layer, which nodes pull from a registry",
};

const KIND: NotRun = {
  notRun: "needs Docker with a system inside of the container, which no machine of this project has; the page says so",
};
const BY_A_READER: NotRun = { notRun: "names a command for somebody's own node or pod; its page of docs/reference has what is tested" };

const CLIENT: NotRun = { notRun: "needs a release; test/release unpacks the archive elsewhere than in a home, and runs what was in it" };
const KREW: NotRun = { notRun: "needs krew, which no package has; test/release compares krew's manifest with the archives" };
const BY_KUBECTL: NotRun = {
  notRun: "test/cluster/agent/endpoint-objects and failure-events ask the API server for the same columns and the same event",
};

/** Every command of these has a row. */
const FOLDERS = ["how-to", "tutorials"];
/** Pages whose commands look at whatever a reader's host has. */
const LOOKS = ["how-to/troubleshoot.md"];

/** Page → heading → who runs the commands of its shell blocks, all of them. */
const BLOCKS: Readonly<Record<string, Readonly<Record<string, readonly (string | NotRun)[]>>>> = {
  "how-to/backup.md": { "## In a cluster": [ADMINISTRATOR] },
  "how-to/connect-nodes.md": { "## Beside Felix": [ROUTES] },
  "how-to/drain.md": { "## The commands": [ADMINISTRATOR] },
  "how-to/dual-stack.md": { "## On one host": [ADDRESSES] },
  "how-to/enforce-policy.md": { "## Did it work?": [POLICY], "## Turn it off": [POLICY] },
  "how-to/explain-policy.md": {
    "## Ask about a connection": [POLICY],
    "## Look at what was dropped": [POLICY],
    "## See which policies there are": [POLICY],
  },
  "how-to/explain.md": { "## Ask": [EXPLAIN], "## Repair": [EXPLAIN], "## Ask about the past": [EXPLAIN] },
  "how-to/fixed-addresses.md": { "## On one host": [ADDRESSES] },
  "how-to/host-scope.md": {},
  "how-to/kubectl-tortie.md": { "## Install it": [CLIENT, KREW], "## Without it: kubectl alone": [BY_KUBECTL] },
  "how-to/look-at-it.md": {},
  "how-to/install-cluster.md": {
    "## In a cluster": [DAEMONSET, DAEMONSET, DAEMONSET],
    "### With Helm": [CHART, CHART],
    "### The image": [RELEASE],
  },
  "how-to/install-host.md": { "## By hand": [BY_HAND, BY_HAND] },
  "how-to/migrate-from-calico.md": {
    "## Before": [ADMINISTRATOR],
    "## To Tortie": [DAEMONSET],
    "## Back": [DAEMONSET, DAEMONSET, DAEMONSET],
    "## One node by hand": [BY_HAND],
    "### In place of Calico's files": [BY_HAND],
  },
  "how-to/monitor.md": { "### Alerts": [DAEMONSET] },
  "how-to/move-datastore.md": {},
  "how-to/report-a-bug.md": { "# Report a bug": [BUNDLE] },
  "how-to/roll-back.md": { "## Back to the version before": [DAEMONSET] },
  "how-to/test-connectivity.md": {
    "## On one host": [CONNECTIVITY],
    "## In a cluster": [CONNECTIVITY_IN_CLUSTER],
    "## It was interrupted, or killed": [CONNECTIVITY],
  },
  "how-to/uninstall.md": { "## From a cluster": [DAEMONSET, DAEMONSET], "## From one host": [BY_HAND] },
  "how-to/upgrade.md": { "## Before a change": [DAEMONSET], "## Upgrade": [DAEMONSET], "### The whole release": [DAEMONSET] },
  "how-to/use-host-local.md": {},
  "reference/controller.md": { "## Run it": [ADMINISTRATOR] },
  "reference/routes.md": { "## What is written to the kernel": [ROUTES] },
  "tutorials/first-pod.md": {
    "## Install": [FIRST_POD],
    "## Two pods": [FIRST_POD, FIRST_POD],
    "## Who has which address": [FIRST_POD],
    "## Break it": [FIRST_POD, FIRST_POD],
    "## Take it away": [FIRST_POD],
  },
  "tutorials/kind.md": {
    "## The image": [RELEASE],
    "## A cluster without a network": [KIND],
    "## Tortie": [KIND, KIND],
    "## Two pods": [KIND],
    "## Take it away": [KIND],
  },
};

const STATUS = [ROUTES, 'commandsOf("reference/routes.md", "## What is written to the kernel")'] as const;
const CHECK = [ADMINISTRATOR, 'commandsOf("how-to/migrate-from-calico.md", "## Before")'] as const;
const INSTALL = ["test/system/installer/install.test.ts", 'command(host, "install"'] as const;

/** Page → command in a sentence → the test that runs it, and words of it by which that can be seen there. */
const INLINE: Readonly<Record<string, Readonly<Record<string, readonly [file: string, words: string] | NotRun>>>> = {
  "how-to/backup.md": {
    "tortiectl ipam check": CHECK,
    'sqlite3 FILE ".backup COPY"': { notRun: "sqlite3 is no program of this project, and not among the packages that its tests install" },
  },
  "how-to/connect-nodes.md": { "tortiectl node status": STATUS, "ip route flush proto 84": [ROUTES, "ip route flush proto 84"] },
  "how-to/enforce-policy.md": {
    "tortiectl policy wait": [POLICY, "tortiectl policy wait"],
    "tortiectl uninstall": ["test/system/installer/install.test.ts", 'command(host, "uninstall"'],
    "kubectl apply": BY_A_READER,
  },
  "how-to/kubectl-tortie.md": {
    "kubectl tortie": BY_A_READER,
    "kubectl tortie endpoints -A": [KUBECTL, 'json("endpoints", "-A")'],
    "kubectl tortie explain pod NAMESPACE/NAME": [DAEMONSET, "explain pod pods/asked"],
    "kubectl tortie explain ip ADDRESS --at TIME": BY_A_READER,
    "kubectl tortie ip ADDRESS": [KUBECTL, 'json("ip", address)'],
    "kubectl tortie blocks --node NODE": [KUBECTL, '"blocks", "--node", "node2"'],
    "kubectl tortie doctor": [DAEMONSET, 'json("doctor --json")'],
    "tortiectl … --json": BY_A_READER,
  },
  "how-to/look-at-it.md": {
    "kubectl tortie": BY_A_READER,
    "tortiectl ui --help": BY_A_READER,
    "tortiectl ui --kubeconfig ~/.kube/config": BY_A_READER,
  },
  "how-to/explain-policy.md": {
    "kubectl -n kube-system exec POD -- tortiectl policy …": BY_A_READER,
    "kubectl describe pod web": BY_A_READER,
    "tortiectl policy explain": [POLICY, "how-to/explain-policy.md"],
    "tortiectl node status": STATUS,
  },
  "how-to/explain.md": {
    "kubectl -n kube-system exec POD -- tortiectl explain …": BY_A_READER,
    "tortiectl explain ip ADDRESS": [PAINS, 'here.explain("ip"'],
    "tortiectl explain interface NAME": [PAINS, 'here.explain("interface"'],
    "tortiectl explain container ID": [PAINS, 'here.explain("container"'],
    "tortiectl explain WORD": [PAINS, 'here.explain("version-unsupported")'],
    "tortiectl ipam history ADDRESS": [PAINS, '"ipam", "history", address'],
    "tortiectl explain ip ADDRESS --at TIME": [PAINS, 'here.explain("ip", address, "--at"'],
  },
  "how-to/host-scope.md": {
    "bash scripts/render-manifests host-scope": [DAEMONSET, 'applyOverlay("host-scope")'],
    "tortiectl node status": STATUS,
  },
  "how-to/install-cluster.md": { "tortiectl install": INSTALL },
  "how-to/install-host.md": {
    "tortiectl install": INSTALL,
    "calico component cni install": ["test/system/installer/install.test.ts", "host.install()"],
    "tortiectl install --watch": ["test/system/installer/install.test.ts", '["install", "--watch"'],
    "tortiectl node status": STATUS,
  },
  "how-to/migrate-from-calico.md": {
    "npm run build": ["package.json", '"build"'],
    "tortiectl node status": STATUS,
    "tortiectl policy check": [POLICY, '"how-to/enforce-policy.md", "## Did it work?"'],
    "tortiectl policy list": [POLICY, '"how-to/enforce-policy.md", "## Did it work?"'],
  },
  "how-to/monitor.md": { "tortiectl node status": STATUS },
  "how-to/move-datastore.md": { "tortiectl datastore migrate": ["test/cluster/migration/migrate.test.ts", '"datastore", "migrate"'] },
  "how-to/report-a-bug.md": { "tortiectl doctor": BY_A_READER },
  "how-to/roll-back.md": {
    "kubectl -n kube-system rollout status daemonset/tortie-node": [
      DAEMONSET,
      "kubectl -n kube-system rollout status daemonset/tortie-node",
    ],
    "kubectl -n kube-system exec POD -- tortiectl node status": [DAEMONSET, '"how-to/upgrade.md", "## Before a change"'],
    "tortiectl ipam check --kubeconfig ~/.kube/config": CHECK,
    "tortiectl cni check LIST NETNS --container-id ID": BY_A_READER,
  },
  "how-to/test-connectivity.md": {
    "tortiectl connectivity test": [CONNECTIVITY, '"how-to/test-connectivity.md", "## On one host"'],
    "tortiectl connectivity clean --kubeconfig ~/.kube/config": [
      CONNECTIVITY_IN_CLUSTER,
      "tortiectl connectivity clean --kubeconfig ~/.kube/config",
    ],
  },
  "how-to/uninstall.md": {
    "bash scripts/render-manifests beside-calico | kubectl delete -f -": [
      ADMINISTRATOR,
      "bash scripts/render-manifests beside-calico | kubectl delete -f -",
    ],
  },
  "how-to/use-host-local.md": {
    "tortie-ipam -upgrade": ["test/system/ipam-plugin/upgrade-flag.test.ts", '"-upgrade"'],
    "crictl rmp --all --force": { notRun: "removes every pod of a reader's node" },
  },
  "reference/controller.md": {
    "tortie-controller --print-schema": [ADMINISTRATOR, "tortie-controller --print-schema"],
    "npm run bench -- --controller": { notRun: "a measurement: CONTRIBUTING.md says when it is made" },
  },
  "reference/routes.md": {
    "tortie-node vxlan": { notRun: "no command, but the alias of a device" },
    'echo "84 tortie" > /etc/iproute2/rt_protos.d/tortie.conf': [ROUTES, 'echo "84 tortie" > /etc/iproute2/rt_protos.d/tortie.conf'],
    "tortiectl routes remove": ["test/system/tortiectl-command.test.ts", '"routes", "remove"'],
    "tortiectl node status": STATUS,
  },
  "tutorials/first-pod.md": { "npm run build": ["package.json", '"build"'] },
};

it("names each network namespace in one page alone: tests play the pages beside each other, below one /run/netns", () => {
  const made = [...Object.keys(BLOCKS), "../README.md"].flatMap((page) => {
    const names = shellBlocksOf(page).flatMap(({ text }) => [...text.matchAll(/^ip netns add (\S+)/gm)].map(([, name = ""]) => name));
    return [...new Set(names)];
  });
  expect(made.length).toBeGreaterThan(3);
  expect(made.filter((name, at) => made.indexOf(name) !== at)).toEqual([]);
});

it("has rows for every page that tells what to do", () => {
  const pages = FOLDERS.flatMap((folder) => readdirSync(join(ROOT, "docs", folder)).map((name) => `${folder}/${name}`));
  expect(pages.filter((page) => !(page in BLOCKS))).toEqual(LOOKS);
});

const source = (path: string) => readFileSync(join(ROOT, path), "utf8");

describe.each(Object.keys(BLOCKS))("docs/%s", (page) => {
  it("has no shell block without a row, and each row's test runs the blocks of its heading", () => {
    const rows = Object.entries(BLOCKS[page] ?? {}).flatMap(([heading, runners]) => runners.map((runner) => ({ heading, runner })));

    expect(shellBlocksOf(page).map(({ heading }) => heading)).toEqual(rows.map(({ heading }) => heading));
    for (const { heading, runner } of rows) {
      if (typeof runner === "string") {
        const calls = [`"${page}", "${heading}"`, `shellBlocksOf("${page}")`];
        expect({ runner, isRun: calls.some((call) => source(runner).includes(call)) }).toEqual({ runner, isRun: true });
      } else expect(runner.notRun).not.toBe("");
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
