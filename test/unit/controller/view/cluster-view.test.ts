/** When the lists of the controller can be relied on. */
import { ClusterView } from "../../../../controller/view/cluster-view.ts";
import { LEGACY_GROUP } from "../../../../lib/datastore/calico/codec.ts";
import type { Selection } from "../../../../lib/kubernetes/watch/kubernetes-feed.ts";
import type { ResourceCache } from "../../../../lib/kubernetes/watch/resource-cache.ts";
import { ApiInMemory } from "../../../support/api-in-memory.ts";
import { settled } from "../../../support/fake-clock.ts";

const NEVER = new AbortController().signal;

/** A view whose lists are complete when the test says so, by the names of their kinds. */
function viewOf(hasEndpointObjects: boolean) {
  const api = new ApiInMemory();
  api.put("/api/v1/nodes/node1", {});
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const watch = <T>(selection: Selection<T>): ResourceCache<T> => {
    const gate = Promise.withResolvers<void>();
    gates.set(selection.name, gate);
    const cache = api.watch(selection);
    return {
      get state() {
        return cache.state;
      },
      isUsable: true,
      get: (key) => cache.get(key),
      list: () => cache.list(),
      onChange: () => () => {},
      untilSynced: () => gate.promise,
      caughtUp: () => gate.promise,
    };
  };
  return { api, gates, view: new ClusterView({ watch }, LEGACY_GROUP, { endpointObjects: hasEndpointObjects, identities: false }) };
}

describe("The lists of the controller", () => {
  it.each([true, false])("are waited for, each of them, with objects of endpoints: %p", async (hasEndpointObjects) => {
    const { gates, view } = viewOf(hasEndpointObjects);
    expect(gates.has("tortieendpoints")).toBe(hasEndpointObjects);
    let isSynced = false;
    const waiting = view.untilSynced(NEVER).then(() => {
      isSynced = true;
    });
    for (const gate of gates.values()) {
      await settled();
      expect(isSynced).toBe(false);
      gate.resolve();
    }
    await waiting;
    expect(view.states()).toHaveLength(gates.size);
  });

  it("that cannot be had end the wait with their error", async () => {
    const { gates, view } = viewOf(false);
    gates.get("pods")?.reject(new Error("arranged"));
    await expect(view.untilSynced(NEVER)).rejects.toThrow("arranged");
  });

  it("count as followed since the latest of them is", () => {
    const { api, view } = viewOf(false);
    api.followedSince = 5;
    expect([view.followedSince, view.gap]).toEqual([5, undefined]);
    api.remove("/api/v1/nodes/node1");
    expect(view.gap).toContain("not believed");
  });
});
