/** Real namespaces, kernel and local store: nothing of a call may be shared with another. */
import { descriptors, hostEnds, OneProcess } from "../../support/one-process.ts";

const CALLS = 200;
const firstHalf = Array.from({ length: CALLS }, (_, i) => i);
const secondHalf = Array.from({ length: CALLS }, (_, i) => CALLS + i);

describe(`${CALLS} calls at once in one process`, () => {
  it("get an address each, take it back, and leave nothing behind", async () => {
    using calls = new OneProcess(2 * CALLS, (directory) => ({
      cniVersion: "1.0.0",
      name: "net1",
      type: "calico",
      datastore_type: "local",
      datastore_path: `${directory}/tortie.db`,
      nodename: "node-a",
      ipam: { type: "calico-ipam", pools: [{ cidr: "10.66.0.0/22" }, { cidr: "fd66::/112" }], assign_ipv6: "true" },
    }));
    // What is opened once and stays: the thread pool, the loaded driver.
    {
      await using warm = calls.host();
      await calls.add(0, warm);
      await calls.del(0, warm);
    }
    const before = await descriptors();
    {
      await using host = calls.host();
      const first = await Promise.all(firstHalf.map((index) => calls.add(index, host)));
      expect(new Set(first.flat()).size).toBe(2 * CALLS);
      expect(hostEnds()).toHaveLength(CALLS);

      // The first half goes while the second half comes.
      const [second] = await Promise.all([
        Promise.all(secondHalf.map((index) => calls.add(index, host))),
        Promise.all(firstHalf.map((index) => calls.del(index, host))),
      ]);
      expect(new Set(second.flat()).size).toBe(2 * CALLS);
      expect(hostEnds()).toHaveLength(CALLS);

      await Promise.all(secondHalf.map((index) => calls.del(index, host)));

      const store = await host.datastore();
      expect(hostEnds()).toEqual([]);
      expect(await store.endpoints.list()).toEqual([]);
      expect(await store.handles.list()).toEqual([]);
      const held = (await store.blocks.list()).flatMap(({ value }) =>
        value.attributes.filter(({ releasedAt }) => releasedAt === undefined),
      );
      expect(held).toEqual([]);
    }
    expect(await descriptors()).toBe(before);
  });
});
