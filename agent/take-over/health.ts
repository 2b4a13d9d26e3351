/** Says which attachments of this node are nobody's endpoints, and what to do about each. */
import { enumerate } from "../../doctor/problem.ts";
import { formatAddress } from "../../lib/addresses/address.ts";
import type { CheckResult } from "../../lib/resident/health.ts";
import type { NodeList } from "../start/node-lists.ts";
import type { LeftAsIs } from "./take-over.ts";

export interface JudgedNode {
  readonly lists: readonly NodeList[];
  readonly left: LeftAsIs;
  /** Whether packets of the host end are dropped because nobody knows its pod. */
  readonly isClosed: (hostInterface: string) => boolean;
}

export function judgeAttachments({ lists, left, isClosed }: JudgedNode): CheckResult {
  const troubles = [...ofLists(lists, left), ...ofNetworks(left), ...ofUnidentified(left, isClosed)];
  if (troubles.length === 0) return { state: "ok", message: "every attachment of this node is an endpoint" };
  return {
    state: "warning",
    message: troubles.map(({ text }) => text).join("; "),
    next: [...new Set(troubles.map(({ next }) => next))].join("; "),
  };
}

interface Trouble {
  readonly text: string;
  readonly next: string;
}

function ofLists(lists: readonly NodeList[], { toPlugins }: LeftAsIs): readonly Trouble[] {
  return lists
    .filter(({ isOfAgent }) => !isOfAgent)
    .map(({ file, config: { name } }) => {
      const count = toPlugins.filter(({ network }) => network === name).length;
      return {
        text: `list ${file} has no "agent": "require": the plugins serve network ${name} themselves, and its ${count} attachments here`,
        next: `give the list "agent": "require", or stop the agent: tortiectl install --help`,
      };
    });
}

function ofNetworks({ toPlugins }: LeftAsIs): readonly Trouble[] {
  const ends = toPlugins.filter(({ list }) => list === undefined);
  if (ends.length === 0) return [];
  const names = ends.map(({ end, network }) => `${end.name}${network === "" ? "" : ` (${network})`}`);
  return [
    {
      text: `no list of this node has the network of host ends ${enumerate(names)}: their links are not repaired`,
      next: "put the list of that network back, or start those pods again",
    },
  ];
}

function ofUnidentified({ unidentified }: LeftAsIs, isClosed: JudgedNode["isClosed"]): readonly Trouble[] {
  if (unidentified.length === 0) return [];
  const words = unidentified.map(({ end: { name, addresses }, problem }) => {
    const where = addresses.length === 0 ? "" : ` (${addresses.map(formatAddress).join(", ")})`;
    const state = isClosed(name) ? "closed, since a policy may select its pod" : "open";
    return `${name}${where}: ${problem}; it is ${state}`;
  });
  return [
    {
      text: `nobody can say whose these host ends are: ${enumerate(words)}`,
      next: "start the pod behind each of them again; where there is none, delete the link: ip link delete NAME",
    },
  ];
}
