/** What a node must hold where there is no Felix, by its pools and by its own ranges. */

import { formatPrefix } from "../../../lib/addresses/address.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { createHost } from "../../../main-plugin/host.ts";
import { prefix } from "../../support/addresses.ts";
import { MemoryStore } from "../../support/memory-datastore.ts";
import { samplePool } from "../../support/samples.ts";

const CONFIG = decodeNetworkConfig({ name: "net1", type: "tortie", datastore_type: "local", datastore_path: "/nonexistent/store.db" });

describe("The state of a node", () => {
  it("masquerades the pools that say so and the node's own ranges, and knows of all of them", async () => {
    const datastore = new MemoryStore().connect();
    await datastore.pools.create("nat", samplePool("nat", "10.60.0.0/26", { natOutgoing: true }));
    await datastore.pools.create("plain", samplePool("plain", "10.61.0.0/26", { natOutgoing: false }));
    const own = prefix("10.62.0.0/24");
    await using host = createHost(CONFIG, {}, { error: () => {} }, { openDatastore: async () => datastore, knownRanges: () => [own] });

    const { forwardedFamilies, masquerading } = await host.state({ env: {} }, [prefix("10.60.0.1/32")]);

    expect(forwardedFamilies).toEqual([4]);
    expect(masquerading?.outgoing.map(formatPrefix)).toEqual(["10.60.0.0/26", "10.62.0.0/24"]);
    expect(masquerading?.pools.map(formatPrefix)).toEqual(["10.60.0.0/26", "10.61.0.0/26", "10.62.0.0/24"]);
  });

  it("cannot be told with a pool that is no CIDR", async () => {
    const datastore = new MemoryStore().connect();
    await datastore.pools.create("broken", samplePool("broken", "nonsense"));
    await using host = createHost(CONFIG, {}, { error: () => {} }, { openDatastore: async () => datastore, knownRanges: () => [] });
    await expect(host.state({ env: {} }, [])).rejects.toMatchObject({ word: "nat-failed" });
  });

  it("tries to open its store again after a failure, and opens it once", async () => {
    let tries = 0;
    const datastore = new MemoryStore().connect();
    const openDatastore = async () => {
      tries++;
      if (tries === 1) throw new Error("not mounted yet");
      return datastore;
    };
    await using host = createHost(CONFIG, {}, { error: () => {} }, { openDatastore });
    await expect(host.datastore()).rejects.toThrow("not mounted yet");
    expect(await host.datastore()).toBe(await host.datastore());
    expect(tries).toBe(2);
  });
});
