/** Many at once: nothing is lost, nothing is doubled, nothing stays (issue, Done when). */
import { addressesOf } from "../../support/cni-result.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { Node, type Pod } from "../../support/node.ts";
import { expectNothingLeft, readStore } from "../../support/store.ts";

const COUNT = 300;
/** Processes started at the same moment; the rest waits for one of them to end, as a runtime's workers would. */
const AT_ONCE = 60;

describe(`${COUNT} parallel ADDs and DELs`, () => {
  it("give every container addresses of its own, and leave no link, route, address, handle or endpoint", async () => {
    await using node = await Node.create();
    const conf = localConf(node, { ipam: dualIpam("46") });
    const pods = await inParallel(20, Array.from({ length: COUNT }), () => node.addPod());

    const added = await inParallel(AT_ONCE, pods, (pod, i) => node.cni("ADD", { pod, containerId: `cid${i}`, conf }));
    expect(added.filter(({ exit }) => exit !== 0).map(({ stdout }) => stdout)).toEqual([]);
    const addresses = added.flatMap(({ json }) => addressesOf(json));
    expect(addresses).toHaveLength(2 * COUNT);
    expect(new Set(addresses).size).toBe(2 * COUNT);
    const store = await readStore(node);
    expect(store.allocated.length).toBe(2 * COUNT);
    expect(store.endpoints).toHaveLength(COUNT);

    // Half of the DELs race with another DEL of the same container, as runtimes make them.
    const deleted = await inParallel(AT_ONCE, [...pods, ...pods.slice(0, COUNT / 2)], (pod: Pod) =>
      node.cni("DEL", { pod, containerId: `cid${pods.indexOf(pod)}`, conf }),
    );
    expect(deleted.filter(({ exit, stdout }) => exit !== 0 || stdout !== "").map(({ stdout }) => stdout)).toEqual([]);
    await expectNothingLeft(node);
  });
});

/** Runs `work` on all items, at most `width` at a time. */
async function inParallel<T, R>(width: number, items: readonly T[], work: (item: T, index: number) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const worker = async () => {
    for (let i = next++; i < items.length; i = next++) {
      results[i] = await work(items[i] as T, i);
    }
  };
  await Promise.all(Array.from({ length: width }, worker));
  return results;
}
