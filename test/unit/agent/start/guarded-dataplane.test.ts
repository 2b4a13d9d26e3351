/** The dataplane of a process that serves many calls: what waits for what, and what is looked at before each part. */
import { guardedDataplane } from "../../../../agent/start/guarded-dataplane.ts";
import type { AppliedLink, Dataplane } from "../../../../dataplane/dataplane.ts";
import { openSandbox } from "../../../../main-plugin/call.ts";
import { settled } from "../../../support/fake-clock.ts";
import { ending, fresh } from "../../../support/fixtures.ts";
import { PodNode } from "../../../support/pod-node.ts";

const node = fresh(PodNode.forContainers);
/** Ends the making of each link. */
let made: PromiseWithResolvers<void>[];
let effects: string[];
let guard: Dataplane;
let add: () => Promise<unknown>;

beforeEach(async () => {
  await node.add();
  const desired = node.applied;
  if (desired === undefined) throw new Error("there is one");
  const { call, host: parts } = node.parts();
  const inner = parts.dataplane;
  made = [];
  effects = [];
  const slow: Dataplane = {
    ...inner,
    apply: async (sandbox, state): Promise<AppliedLink> => {
      const gate = Promise.withResolvers<void>();
      made.push(gate);
      await gate.promise;
      effects.push("made");
      return inner.apply(sandbox, state);
    },
    remove: async () => {
      effects.push("removed");
      return {};
    },
  };
  guard = guardedDataplane(slow, { check: () => void effects.push("looked") });
  const sandbox = ending(openSandbox(call));
  add = () => guard.apply(sandbox, desired);
});

const UNFINISHED = { hostInterface: "tmp1", index: 3 };
const OWNED = { hostInterface: "cali1", index: 4, owner: { network: "net1", containerId: "c1", ifname: "eth0" } };

describe("The removal of a link without owner", () => {
  it("waits for every link that is being made, those that begin meanwhile included", async () => {
    const first = add();
    const removing = guard.remove(UNFINISHED);
    const second = add();
    made[0]?.resolve();
    await settled();
    expect(effects.filter((effect) => effect !== "looked")).toEqual(["made"]);
    made[1]?.reject(new Error("arranged"));
    await expect(second).rejects.toThrow("arranged");
    await Promise.all([first, removing]);
    expect(effects.at(-1)).toBe("removed");
  });

  it("happens at once when none is made, and so does that of a link with an owner while one is", async () => {
    await guard.remove(UNFINISHED);
    const adding = add();
    await guard.remove(OWNED);
    expect(effects).toEqual(["looked", "removed", "looked", "looked", "removed"]);
    made[0]?.resolve();
    await adding;
  });
});
