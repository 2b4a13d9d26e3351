/** GC of a node with thousands of leaked handles on a real API server: what it costs for each, and how long it keeps an ADD waiting. */
import { shared } from "../../support/fixtures.ts";
import { LEGACY } from "../../support/kubernetes/test-cluster.ts";
import { World } from "./world.ts";

const LEAKED = 3000;
/** Handles that count an address in the node's block and have none, and those that have one of a container that is gone. */
const HELD = 50;

const world = shared(World.create);

/** An answer may take long on a busy machine. */
const timeoutMs = 120_000;

async function inBatches(count: number, width: number, make: (index: number) => Promise<unknown>): Promise<void> {
  for (let from = 0; from < count; from += width) {
    await Promise.all(Array.from({ length: Math.min(width, count - from) }, (_, index) => make(from + index)));
  }
}

jest.setTimeout(400_000);

describe("GC of a node with thousands of leaked handles", () => {
  it("asks some two times for each, and an ADD meanwhile waits for no more than one of its steps", async () => {
    await world.reset(LEGACY);
    expect(await world.add({ container: "first", timeoutMs })).toMatchObject({ exit: 0 });
    await inBatches(HELD, 4, (index) => world.add({ container: `held${index}`, timeoutMs }));
    const [block] = await world.blocks();
    await inBatches(LEAKED, 50, (index) =>
      world.put("IPAMHandle", { name: `net1.leaked${index}` }, { handleID: `net1.leaked${index}`, block: { [String(block?.cidr)]: 1 } }),
    );
    expect((await world.handles()).length).toBe(LEAKED + HELD + 1);

    const mark = await world.cluster.mark();
    const gc = world.gc(["first"]);
    const waits: number[] = [];
    let isOver = false;
    void gc.finally(() => {
      isOver = true;
    });
    for (let index = 0; !isOver; index++) {
      const began = performance.now();
      expect(await world.add({ container: `meanwhile${index}`, timeoutMs })).toMatchObject({ exit: 0 });
      expect(await world.del({ container: `meanwhile${index}`, timeoutMs })).toMatchObject({ exit: 0 });
      waits.push(performance.now() - began);
    }
    expect(await gc).toMatchObject({ exit: 0 });

    const handles = await world.handles();
    expect(handles.filter((handle) => handle.includes("leaked") || handle.includes("held"))).toEqual([]);
    const requests = await world.cluster.requests(mark);
    const ofGc = requests.length - waits.length * 12;
    console.log(`${ofGc} requests for ${LEAKED + HELD} handles; ${waits.length} pods came and went meanwhile`);
    expect(ofGc / (LEAKED + HELD)).toBeLessThan(2.5);
    // Many pods came and went while the handles were released: none of them waited for the whole.
    expect(waits.length).toBeGreaterThan(10);
  });
});
