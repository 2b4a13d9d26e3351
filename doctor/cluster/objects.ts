/** Judges what the cluster stores about addresses, endpoints and policies. */
import { openDatastore } from "../../lib/datastore/open.ts";
import { type Fields, flag, objects, section, text, textList } from "../../lib/json/decode.ts";
import { metadataOf } from "../../lib/kubernetes/objects.ts";
import { abridged } from "../checks.ts";
import { judgeStore } from "../host/addresses.ts";
import { countOf, countUnread, NETWORK_POLICIES, UNREAD_KINDS } from "../policy-objects.ts";
import { count, enumerate } from "../problem.ts";
import { type Finding, failed, skipped, warned, well } from "../report.ts";
import type { ClusterView } from "./view.ts";

/** Looks for a pool that pods may have addresses of. */
export async function pools(view: ClusterView): Promise<readonly Finding[]> {
  const all = await view.pools();
  const usable = all.filter((pool) => !flag(section(pool, "spec"), "disabled") && !metadataOf(pool).isDeleting);
  if (usable.length > 0)
    return [well("pools", `${count(usable.length, "pool")}: ${enumerate(usable.map((pool) => text(section(pool, "spec"), "cidr")))}`)];
  if ((await view.agentSets()).some((set) => argumentsOf(set).some((one) => one.includes("host-scope")))) {
    return [skipped("pools", "addresses come from the nodes' own ranges")];
  }
  const next = "make a pool (docs/how-to/install-cluster.md), or enable one";
  return [failed("pools", all.length === 0 ? "there is none" : "all are disabled or going", { word: "pool-missing", next })];
}

/** Compares blocks, affinities, handles and pods. */
export async function stored(view: ClusterView): Promise<readonly Finding[]> {
  const unreadable = new Set<string>();
  await using datastore = await openDatastore(view.settings, view.options.env, ({ message }) => void unreadable.add(message));
  return await judgeStore(datastore, unreadable);
}

/** Judges what agents show of their endpoints. */
export async function endpoints(view: ClusterView): Promise<readonly Finding[]> {
  const found = await view.list("/apis/tortie.dev/v1alpha1/tortieendpoints");
  if (found.length === 0) return [skipped("endpoints", "there is no TortieEndpoint: agents write them with --endpoint-objects")];
  const nodes = new Set((await view.nodes()).map((node) => metadataOf(node).name));
  const wrong = found.flatMap((endpoint) => judgeEndpoint(endpoint, nodes));
  return wrong.length > 0 ? abridged(wrong, "endpoints") : [well("endpoints", `${count(found.length, "endpoint")}: all are ready`)];
}

export function judgeEndpoint(endpoint: Fields, nodes: ReadonlySet<string>): readonly Finding[] {
  const { namespace, name } = metadataOf(endpoint);
  const [object, node] = [`endpoint ${namespace}/${name}`, text(section(endpoint, "spec"), "node")];
  if (!nodes.has(node)) {
    return [
      warned(object, `its node ${node} does not exist`, { next: `delete it: kubectl -n ${namespace} delete tortieendpoint ${name}` }),
    ];
  }
  const state = text(section(endpoint, "status"), "state");
  if (state === "" || state === "ready") return [];
  return [failed(object, `on node ${node} it is ${state}`, { next: `on that node: tortiectl node endpoint ${namespace}/${name}` })];
}

/** Label and name of DaemonSets that enforce NetworkPolicy. */
const ENFORCERS: readonly string[] = [
  "calico-node",
  "canal",
  "cilium",
  "kube-router",
  "antrea-agent",
  "kube-network-policies",
  "weave-net",
];

function containersOf(set: Fields): readonly Fields[] {
  return objects(section(section(section(set, "spec"), "template"), "spec"), "containers");
}

/** Gives options as words of their own, whether they were written "--a=b" or "--a", "b". */
function argumentsOf(set: Fields): readonly string[] {
  return containersOf(set).flatMap((one) => [...textList(one, "command"), ...textList(one, "args")]);
}

/** @returns whether the agents of this DaemonSet leave policy to others, by their flags or variables */
export function isPolicyOff(set: Fields): boolean {
  const line = argumentsOf(set).join(" ");
  const variables = containersOf(set).flatMap((one) => objects(one, "env"));
  return /--policy[= ]off\b/.test(line) || variables.some((one) => text(one, "name") === "TORTIE_POLICY" && text(one, "value") === "off");
}

/** Judges whether anybody enforces the NetworkPolicy objects that there are. */
export async function policies(view: ClusterView): Promise<readonly Finding[]> {
  const object = "NetworkPolicy";
  const counted = countOf(await view.get(NETWORK_POLICIES));
  const atLeast = counted.kind === "counted" ? counted.atLeast : 0;
  if (atLeast === 0) return [well(object, "there is no object")];
  const sets = await view.daemonSets();
  const other = sets.map((set) => metadataOf(set).name).find((name) => ENFORCERS.includes(name));
  const ours = await view.agentSets();
  const objectsText = `there is at least ${count(atLeast, "object")}`;
  if (ours.some((set) => !isPolicyOff(set))) return [well(object, `${objectsText}, and Tortie's agents enforce them`)];
  if (other !== undefined) return [well(object, `${objectsText}, and DaemonSet ${other} is here to enforce them`)];
  const next = "give the agents --policy auto (docs/how-to/enforce-policy.md), or run another program that enforces them";
  const cause = ours.length > 0 ? "the agents run with --policy off" : "no DaemonSet is known that does";
  return [failed(object, `${objectsText}, and nobody enforces them: ${cause}`, { word: "policy-unenforced", next })];
}

/** Looks for policies of kinds that Tortie does not read. */
export async function unreadPolicies(view: ClusterView): Promise<readonly Finding[]> {
  const object = "policies of other kinds";
  const looks = await Promise.all(UNREAD_KINDS.map((kind) => countUnread(view.connection, kind)));
  const refused = UNREAD_KINDS.filter((_, index) => looks[index] === undefined).map(({ kind }) => kind);
  const found = looks.flatMap((look) => (look !== undefined && look.atLeast > 0 ? [`${look.kind} (at least ${look.atLeast})`] : []));
  const isCalico = (await view.daemonSets()).some((set) => ["calico-node", "canal"].includes(metadataOf(set).name));
  if (found.length > 0 && !isCalico) {
    const next = "write what they say as NetworkPolicy objects, or run the program that reads them";
    return [failed(object, `objects exist that nobody enforces: ${enumerate(found)}`, { word: "policy-unread", next })];
  }
  if (refused.length > 0) return [skipped(object, `this account may not list ${enumerate(refused)}`)];
  return [well(object, found.length > 0 ? `DaemonSet calico-node is here to enforce ${enumerate(found)}` : "there are none")];
}
