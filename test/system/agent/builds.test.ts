/** Builds in a real sandbox, with a kernel that does not answer: the part that no real one does on demand. */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EndpointManager } from "../../../agent/endpoints/manager.ts";
import { RecordStore } from "../../../agent/endpoints/record/record-store.ts";
import type { Mending } from "../../../dataplane/dataplane.ts";
import { Controllers } from "../../../lib/resident/controllers.ts";
import { desiredFor } from "../../support/desired-state.ts";
import { recordOf } from "../../support/endpoint-record.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { Node } from "../../support/node.ts";

const NEVER = new AbortController().signal;
const DIFFERENCE = { side: "host", object: "route 10.60.0.0/32", wanted: "there", found: "missing" } as const;

describe("An endpoint whose build does not end", () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tortie-builds-"));
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  it("G19: is not removed while that build may make its link again, but as soon as it has ended", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const { dev, ino } = statSync(pod.netnsPath);
    const mending = Promise.withResolvers<Mending>();
    const begun = Promise.withResolvers<void>();
    const clock = new FakeClock();
    const manager = new EndpointManager({
      store: new RecordStore(directory),
      bootId: "boot-1",
      clock,
      controllers: new Controllers({ clock }),
      dataplane: {
        drift: async () => [DIFFERENCE],
        mend: () => {
          begun.resolve();
          return mending.promise;
        },
        apply: () => Promise.reject(new Error("no link is made here")),
      },
      log: { info: () => {}, error: () => {} },
    });
    const finished: string[] = [];
    manager.finishBy(async (record) => {
      await manager.remove(await manager.write({ ...record, phase: "deleting:begun" }));
      finished.push(record.attachment.containerId);
    });
    const { attachment, podInterface, linkForm } = recordOf(0);
    const netns = { path: pod.netnsPath, dev: String(dev), ino: String(ino) };
    const record = await manager.begin({ attachment, podInterface, linkForm, netns, addresses: [] });
    const { sandbox: _, ...desired } = desiredFor(pod);
    await manager.commit({ ...(await manager.build(record, NEVER)), desired });
    manager.trigger(record.id, { level: 1, reason: "by a test" });
    await begun.promise;

    const removal = manager.write({ ...record, phase: "deleting:begun" }).catch((error: unknown) => error);
    await clock.advance(10_000);
    expect(await removal).toMatchObject({ word: "link-delete-timeout" });
    await clock.advance(60_000);
    expect([manager.list().length, finished]).toEqual([1, []]);

    mending.resolve({ mended: [], left: [] });
    await clock.advance(60_000);
    expect([manager.list().length, finished]).toEqual([0, [attachment.containerId]]);
  });
});
