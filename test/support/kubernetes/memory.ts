/**
 * The API server's memory, which the plugins' lists come from (`resourceVersion=0`). It hears of a write some milliseconds after the
 * writer has its answer, as everybody else does: whoever prepares a test waits for that.
 */
import type { Answer } from "./admin-client.ts";
import { memberAt } from "./json.ts";
import { until } from "./until.ts";

/** Group, version and plural of the lists that plugins take from it; the name of an object, where the path has one. */
const LISTED = /^(\/apis\/(?:crd\.)?projectcalico\.org\/v\d\/(?:ippools|ipreservations|blockaffinities))(?:\/([^/?]+))?$/;

/** Waits until the memory knows of a write that the server has answered; reads and refused writes are nothing to wait for. */
export async function heardOf(method: string, path: string, answer: Answer, get: (path: string) => Promise<Answer>): Promise<void> {
  const [, list, name] = LISTED.exec(path) ?? [];
  if (list === undefined || method === "GET" || answer.status >= 300) return;
  const revision = memberAt(JSON.parse(answer.text), "metadata", "resourceVersion");
  if (method !== "DELETE" && typeof revision === "string") {
    await get(`${list}?limit=1&resourceVersionMatch=NotOlderThan&resourceVersion=${revision}`);
    return;
  }
  await until(`the API server's memory has no ${path}`, async () => {
    const items = memberAt(JSON.parse((await get(`${list}?resourceVersion=0`)).text), "items");
    return Array.isArray(items) && items.every((item) => memberAt(item, "metadata", "name") !== name || isEnding(item));
  });
}

/**
 * Waits until the memory knows the affinities that are stored, whoever wrote them: an operation whose requests are counted lists them
 * once more when one of its node is missing.
 */
export async function knowsAffinities(group: string, get: (path: string) => Promise<Answer>): Promise<void> {
  const list = `/apis/${group}/blockaffinities`;
  const items = memberAt(JSON.parse((await get(list)).text), "items");
  const revisions = Array.isArray(items) ? items.map((item) => Number(memberAt(item, "metadata", "resourceVersion"))) : [];
  if (revisions.length === 0) return;
  await get(`${list}?limit=1&resourceVersionMatch=NotOlderThan&resourceVersion=${Math.max(...revisions)}`);
}

function isEnding(item: unknown): boolean {
  return memberAt(item, "metadata", "deletionTimestamp") !== undefined;
}
