/** The raw objects of servers, as plain requests have them: what Calico keeps in custom resources, or in etcd. */
import { grantsOfBlock, type JsonRecord, recordOf } from "./look.ts";
import type { SeenStore } from "./world.ts";

const BLOCKS = "/calico/ipam/v2/assignment/";
const HANDLES = "/calico/ipam/v2/handle/";
const ENDPOINTS = "/calico/resources/v3/projectcalico.org/workloadendpoints/";

/** @param blocks and handles: `spec` of each */
export function storeOfResources(blocks: readonly unknown[], handles: readonly unknown[]): SeenStore {
  return {
    grants: blocks.map(recordOf).flatMap((spec) => grantsOfBlock(spec, spec)),
    blocks: blocks.map((spec) => String(recordOf(spec).cidr)),
    handles: new Map(handles.map(recordOf).flatMap((spec) => countOf(String(spec.handleID), spec))),
    endpoints: [],
    lacksEndpoints: true,
  };
}

/** @param contents every key and its value */
export function storeOfEtcd(contents: ReadonlyMap<string, string>): SeenStore {
  const below = (prefix: string): [string, JsonRecord][] =>
    [...contents].flatMap(([key, value]) => (key.startsWith(prefix) ? [[key.slice(prefix.length), recordOf(JSON.parse(value))]] : []));
  return {
    grants: below(BLOCKS).flatMap(([, block]) => grantsOfBlock(block, block)),
    blocks: below(BLOCKS).map(([, block]) => String(block.cidr)),
    handles: new Map(below(HANDLES).flatMap(([id, handle]) => countOf(id, handle))),
    endpoints: below(ENDPOINTS).map(([, endpoint]) => {
      const { containerID, endpoint: ifname } = recordOf(endpoint.spec);
      return `${containerID} ${ifname}`;
    }),
  };
}

/** One that is marked as deleted counts nothing. */
function countOf(id: string, { block, deleted }: JsonRecord): [string, number][] {
  if (deleted === true) return [];
  return [[id, Object.values(recordOf(block)).reduce<number>((sum, count) => sum + Number(count), 0)]];
}
