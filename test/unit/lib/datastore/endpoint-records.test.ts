/** The record of an endpoint whose store answers late, or lets others in between. */
import { type Fate, MemoryStore } from "../../../support/memory-datastore.ts";
import { sampleEndpoint } from "../../../support/samples.ts";

const KEY = { namespace: "shop", name: "worker--1-k8s-cart--x2x8q-eth0" };
const ENDPOINT = sampleEndpoint(KEY.namespace, KEY.name, { containerID: "c1" });

/** @param fates of the calls, one after the other; later ones proceed. Each is told with the next turn of the event loop */
function records(...fates: readonly Fate[]) {
  const store = new MemoryStore();
  const left = [...fates];
  const gate = async () => {
    await Bun.sleep(0);
    return left.shift() ?? "proceed";
  };
  return { store, records: store.connect("client", gate).records };
}

describe("a record", () => {
  it("is there when its write has ended", async () => {
    const { store, records: slow } = records();
    await slow.write(ENDPOINT);
    expect(store.rows("endpoint").size).toBe(1);
  });

  it("whose write fails is an error of the writer", async () => {
    await expect(records("unavailable").records.write(ENDPOINT)).rejects.toMatchObject({ failure: "unavailable" });
  });

  it("is written in spite of others that write in between, but not for ever", async () => {
    const lost = (times: number) => {
      const subject = records(...Array.from({ length: times }, (): Fate[] => ["proceed", "conflict"]).flat());
      subject.store.put("endpoint", `${KEY.namespace}/${KEY.name}`, ENDPOINT);
      return subject.records.write({ ...ENDPOINT, containerID: "c2" });
    };
    await lost(9);
    await expect(lost(10)).rejects.toMatchObject({ word: "endpoint-contended", message: expect.stringContaining("10 times in a row") });
  });
});
