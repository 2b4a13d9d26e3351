/**
 * The import order of the folders (docs/project/design.md §3), checked by `npm run lint`: whatever stands later in a list may import what stands
 * before it, and never the other way. Type imports count.
 *
 * TypeScript 7 has no API that dependency-cruiser could parse with; its own loose parser finds every import of this tree
 * (test/unit/imports.test.ts compares).
 */

/** Folders of lib/, the leaves first. */
const LIB = [
  "errors",
  "system",
  "addresses",
  "json",
  "log",
  "selector",
  "cni",
  "config",
  "kubernetes",
  "resident",
  "identity",
  "workload",
  "datastore",
];
/** Top folders; those of one entry do not import each other. */
const TOP = [
  ["lib"],
  ["dataplane", "ipam-plugin"],
  ["handover", "policy"],
  ["main-plugin", "installer"],
  ["doctor"],
  ["agent", "controller", "migration"],
  // The page, and what it and its server say to each other.
  ["ui"],
  ["cmd"],
];
/**
 * Folders of agent/, the leaves first; those of one entry may import each other, without circles. agent/agent.ts, the list of all parts, is
 * imported by cmd/ alone.
 */
const AGENT = [
  ["observe"],
  ["start"],
  ["endpoints"],
  ["addresses", "sweep"],
  ["routes"],
  ["policy"],
  ["objects"],
  ["attachments"],
  ["take-over"],
  ["api"],
];
/** dataplane/ knows neither CNI nor Calico nor Kubernetes. */
const HIDDEN_FROM_DATAPLANE = ["cni", "config", "kubernetes", "resident", "workload", "datastore"];

const folder = (names, root = "") => `^${root}(${names.join("|")})/`;
const rule = (name, from, to, comment) => ({ name, comment, severity: "error", from: { path: from }, to: { path: to } });

const forbidden = [
  ...TOP.flatMap((names, level) =>
    names.map((name) => {
      const barred = [...names.filter((other) => other !== name), ...TOP.slice(level + 1).flat(), "test", "scripts"];
      return rule(`${name}-imports-downwards`, folder([name]), folder(barred), "the order of the top folders");
    }),
  ),
  ...LIB.slice(0, -1).map((name, level) =>
    rule(`lib-${name}-imports-downwards`, folder([name], "lib/"), folder(LIB.slice(level + 1), "lib/"), "the order inside lib/"),
  ),
  rule("lib-folders-are-known", "^lib/", `^lib/(?!(${LIB.join("|")})/)`, "a new folder of lib/ needs its place in the order"),
  ...AGENT.flatMap((names, level) =>
    names.map((name) => {
      const later = AGENT.slice(level + 1).flat();
      const barred = [...later.map((other) => `${other}/`), "[^/]+\\.ts$"].join("|");
      return rule(`agent-${name}-imports-downwards`, folder([name], "agent/"), `^agent/(${barred})`, "the order inside agent/");
    }),
  ),
  rule(
    "agent-folders-are-known",
    "^agent/",
    `^agent/(?!(${AGENT.flat().join("|")})/)[^/]+/`,
    "a new folder of agent/ needs its place in the order",
  ),
  rule("dataplane-is-plain-linux", folder(["dataplane"]), folder(HIDDEN_FROM_DATAPLANE, "lib/"), "what a link is for is decided above"),
  {
    name: "files-are-acyclic",
    comment: "type imports count here too",
    severity: "error",
    from: { path: folder(TOP.flat()) },
    to: { circular: true },
  },
  { name: "folders-are-acyclic", severity: "error", scope: "folder", from: {}, to: { circular: true } },
];

module.exports = {
  forbidden,
  options: {
    doNotFollow: { path: "node_modules" },
    // Tests and scripts may import everything.
    includeOnly:
      "^(agent|cmd|controller|dataplane|doctor|handover|installer|ipam-plugin|lib|main-plugin|migration|policy|scripts|test|ui)/",
  },
};
