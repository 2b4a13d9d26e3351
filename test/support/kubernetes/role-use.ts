/**
 * What our accounts asked of the API server in a run of the cluster suite, against what the roles of manifests/ allow them: a request
 * that no rule allows would be forbidden in a cluster, and a rule that no request needs is a right that only a thief would use (S5).
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HARNESS_AGENT } from "./admin-client.ts";
import { type AuditedRequest, readAudit } from "./audit.ts";
import { memberAt } from "./json.ts";
import { agentAccess, controllerAccess, installAccess, newClusterAccess, pluginAccess } from "./manifests.ts";
import type { ApiObject } from "./resources.ts";

/** Folder in which runs keep what they used, until all of them have ended; set by scripts/suites. */
export const ROLE_USE = "TORTIE_ROLE_USE";

const ACCOUNT_PREFIX = "system:serviceaccount:kube-system:";

/** Account → rights as "get crd.projectcalico.org/ippools"; the core group has no name: "patch /pods/status". */
export type Rights = ReadonlyMap<string, ReadonlySet<string>>;

/** Rights that a role has and no test of the suite uses, or the other way round, and why it stays so. */
interface Explained {
  readonly account: string;
  readonly rights: RegExp;
  readonly reason: string;
}

const OURS = ["tortie-node", "tortie-controller"];

export const EXPLAINED: readonly Explained[] = [
  {
    account: "calico-cni-plugin",
    rights: / (crd\.)?projectcalico\.org\//,
    reason: "one rule, verb for verb Calico's own (C§8.2), so that either's role serves both",
  },
  { account: "calico-cni-plugin", rights: /^list \/(pods|secrets)$/, reason: "asked for by tests of refusals" },
  ...OURS.flatMap((account): Explained[] => [
    {
      account,
      rights: / (crd\.projectcalico\.org\/ipamconfigurations|projectcalico\.org\/)/,
      reason: "a cluster has one of Calico's two API groups, and a rule has both; the suite plays most of it with the older one",
    },
    {
      account,
      rights: /^get kubevirt\.io\//,
      reason: "owners of pods of virtual machines, of which the suite has none beside these programs",
    },
    { account, rights: /^update crd\.projectcalico\.org\/ipamhandles$/, reason: "the count of a handle that loses some of its addresses" },
  ]),
  {
    account: "tortie-node",
    rights: /^get (\/nodes|\/namespaces|crd\.projectcalico\.org\/(ippools|ipreservations))$/,
    reason: "read from the copies that watches keep, and one by one while a copy is not followed (G5)",
  },
  {
    account: "tortie-node",
    rights: /^(get|delete) crd\.projectcalico\.org\/(blockaffinities|ipamblocks)$/,
    reason: "blocks that are claimed by two nodes at once, or given back: the suite plays them with the plugin's account",
  },
  {
    account: "tortie-controller",
    rights: /^delete tortie\.dev\/tortieidentities$/,
    reason: "an identity goes a day after it was retired: played with a clock of its own (unit controller/duties/identities)",
  },
];

/** What the roles in manifests/ allow each account. */
export function grantedRights(): Rights {
  return rightsByAccount([...pluginAccess(), ...agentAccess(), ...installAccess(), ...controllerAccess(), ...newClusterAccess()]);
}

/** The rules of roles and cluster roles, by the accounts that they are bound to. */
export function rightsByAccount(objects: readonly ApiObject[]): Rights {
  const rights = new Map<string, Set<string>>();
  for (const binding of objects.filter(({ kind }) => /^(Cluster)?RoleBinding$/.test(kind))) {
    const roles = objects.filter(
      ({ kind, metadata }) => kind === memberAt(binding, "roleRef", "kind") && metadata.name === memberAt(binding, "roleRef", "name"),
    );
    for (const { name } of Array.isArray(binding.subjects) ? binding.subjects : []) {
      const own = rights.get(name) ?? new Set();
      rights.set(name, own);
      for (const { rules } of roles) for (const right of Array.isArray(rules) ? rules.flatMap(rightsOfRule) : []) own.add(right);
    }
  }
  return rights;
}

interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly verbs: readonly string[];
}

function rightsOfRule({ apiGroups = [], resources = [], verbs }: Rule): string[] {
  return verbs.flatMap((verb) => apiGroups.flatMap((group) => resources.map((resource) => `${verb} ${group}/${resource}`)));
}

/** What accounts of kube-system asked for, without what the harness asked in their name. Paths that are no resource need no rule. */
export function usedRights(requests: readonly AuditedRequest[]): Rights {
  const used = new Map<string, Set<string>>();
  for (const { user, userAgent, verb, uri } of requests) {
    const resource = resourceOf(uri);
    if (!user.startsWith(ACCOUNT_PREFIX) || userAgent === HARNESS_AGENT || resource === undefined) continue;
    const account = user.slice(ACCOUNT_PREFIX.length);
    used.set(account, (used.get(account) ?? new Set()).add(`${verb} ${resource}`));
  }
  return used;
}

/** "GROUP/PLURAL" or "GROUP/PLURAL/SUBRESOURCE" of /api/v1/[namespaces/NS/]PLURAL/NAME/SUB or /apis/GROUP/VERSION/…; nothing for discovery. */
function resourceOf(uri: string): string | undefined {
  const [path = ""] = uri.split("?");
  const [root, ...rest] = path.split("/").slice(1);
  if (root !== "api" && root !== "apis") return undefined;
  const group = root === "api" ? "" : rest.shift();
  const parts = rest.slice(1);
  const [plural, , sub] = parts[0] === "namespaces" && parts.length > 2 ? parts.slice(2) : parts;
  if (plural === undefined || plural === "") return undefined;
  return `${group}/${plural}${sub === undefined ? "" : `/${sub}`}`;
}

/**
 * @param isWhole whether all of the suite has run, so that what was not used is needed by nothing
 * @returns in words, one for each right that is too little or too much; nothing of accounts that have no role of ours
 */
export function compareRights(granted: Rights, used: Rights, unused: readonly Explained[], isWhole: boolean): readonly string[] {
  return [...granted].flatMap(([account, rights]) => {
    const own = used.get(account) ?? new Set<string>();
    const isExplained = (right: string) => unused.some((one) => one.account === account && one.rights.test(right));
    const missing = [...own]
      .filter((right) => !rights.has(right) && !isExplained(right))
      .map((right) => `${account}: "${right}" was asked for, and no rule allows it`);
    if (!isWhole) return missing;
    const idle = [...rights].filter((right) => !own.has(right) && !isExplained(right));
    return [...missing, ...idle.map((right) => `${account}: "${right}" is allowed, and nothing has asked for it`)];
  });
}

/** What accounts asked of one API server, by its audit log and the parts of that which it has put aside. */
export function useOfServer(dir: string): Rights {
  const logs = readdirSync(dir).filter((name) => /^audit(-.*)?\.log$/.test(name));
  return union(logs.map((name) => usedRights(readAudit(join(dir, name), 0))));
}

/** Keeps what was asked of one API server for the end of all runs; does nothing where nobody will ask. */
export function keepUse(used: Rights, folder = process.env[ROLE_USE]): void {
  if (folder === undefined) return;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${crypto.randomUUID()}.json`), JSON.stringify([...used].map(([account, rights]) => [account, [...rights]])));
}

/** What all runs have kept. */
export function keptUse(folder: string): Rights {
  return union(
    readdirSync(folder).map((name) => {
      const kept: readonly (readonly [string, readonly string[]])[] = JSON.parse(readFileSync(join(folder, name), "utf8"));
      return new Map(kept.map(([account, rights]) => [account, new Set(rights)]));
    }),
  );
}

function union(all: readonly Rights[]): Rights {
  const used = new Map<string, ReadonlySet<string>>();
  for (const [account, rights] of all.flatMap((one) => [...one])) used.set(account, new Set([...(used.get(account) ?? []), ...rights]));
  return used;
}
