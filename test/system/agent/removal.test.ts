/** A removal beside a build that does not end: on a real sandbox, with a dataplane that hangs. */

import { statSync } from "node:fs";
import { EndpointManager } from "../../../agent/endpoints/manager.ts";
import { mendLink } from "../../../agent/endpoints/mend-link.ts";
import { RecordStore } from "../../../agent/endpoints/store.ts";
import { Tasks } from "../../../lib/resident/tasks.ts";
import { desiredFor } from "../../support/desired-state.ts";
import { recordOf } from "../../support/endpoint-record.ts";
import { FakeClock, settled } from "../../support/fake-clock.ts";
import { TemporaryDirectory } from "../../support/fixtures.ts";
import { Node } from "../../support/node.ts";

describe("an endpoint whose build does not end", () => {
  it("G19: is not removed while that may make its link again, but as soon as it has ended", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    using directory = new TemporaryDirectory();
    const comparing = Promise.withResolvers<[]>();
    const clock = new FakeClock();
    const link = {
      grants: { isGranted: async () => true },
      hold: async () => ({ [Symbol.dispose]: () => {} }),
      dataplane: {
        drift: () => comparing.promise,
        mend: async () => ({ mended: [], left: [] }),
        apply: () => Promise.reject(new Error("no link is made here")),
      },
    };
    const manager = new EndpointManager({
      store: new RecordStore(directory.path),
      bootId: "boot-1",
      clock,
      controllers: new Tasks({ clock }),
      mend: (endpoint, signal) => mendLink(endpoint, link, signal),
      log: { error: () => {} },
    });
    const finished: string[] = [];
    manager.finishBy(async (record) => {
      await manager.remove(await manager.write({ ...record, phase: "deleting:begun" }));
      finished.push(record.attachment.containerId);
    });
    const { dev, ino } = statSync(pod.netnsPath);
    const netns = { path: pod.netnsPath, dev: String(dev), ino: String(ino), isVisible: true };
    const { attachment, podInterface, linkForm } = recordOf(1);
    const begun = await manager.begin({ attachment, podInterface, linkForm, netns });
    const record = await manager.commit({ ...begun, desired: desiredFor(pod) });
    manager.get(record.id)?.mending.trigger({ level: 1, reason: "by a test" });
    await settled();

    const removal = manager.write({ ...record, phase: "deleting:begun" }).catch((error: unknown) => error);
    await clock.advance(10_000);
    expect(await removal).toMatchObject({ word: "link-delete-timeout" });
    await clock.advance(60_000);
    expect([manager.list().length, finished]).toEqual([1, []]);

    comparing.resolve([]);
    await clock.advance(60_000);
    expect([manager.list().length, finished]).toEqual([0, [attachment.containerId]]);
  });
});
