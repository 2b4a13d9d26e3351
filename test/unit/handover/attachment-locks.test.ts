import { AttachmentLocks } from "../../../handover/attachment-locks.ts";
import { fileKey } from "../../../lib/cni/attachment-id.ts";
import { fresh, TemporaryDirectory } from "../../support/fixtures.ts";

const ONE = fileKey({ network: "net1", containerId: "cid1", ifname: "eth0" });
const SAME_FILE = `${ONE.slice(0, 3)}${"0".repeat(61)}`;

const directory = fresh(() => new TemporaryDirectory());

/** Two instances stand for two processes: flock(2) is about open files. */
const processes = () => [new AttachmentLocks(`${directory.path}/a/b`), new AttachmentLocks(`${directory.path}/a/b`)] as const;

describe("the lock of an attachment", () => {
  it("is one process's at a time, and the next one's when it is given back", async () => {
    const [first, second] = processes();
    const held = await first.take(ONE);
    expect(second.tryTake(ONE)).toBeUndefined();
    const said: string[] = [];
    const waiting = second.take(ONE, { onWait: (message) => said.push(message) });
    held[Symbol.dispose]();
    using _ = await waiting;
    expect(said).toEqual([expect.stringContaining(`waiting for the attachment's lock ${directory.path}/a/b/${ONE.slice(0, 3)}`)]);
    expect(first.tryTake(ONE)).toBeUndefined();
  });

  it("is held together by attachments of one process that share a file, until the last gives it back", async () => {
    const [first, second] = processes();
    const one = await first.take(ONE);
    const other = await first.take(SAME_FILE);
    one[Symbol.dispose]();
    one[Symbol.dispose]();
    expect(second.tryTake(ONE)).toBeUndefined();
    other[Symbol.dispose]();
    second.tryTake(ONE)?.[Symbol.dispose]();
    using _ = first.tryTake(ONE);
    expect(second.tryTake(ONE)).toBeUndefined();
  });

  it("is not waited for without a limit, nor by who wants nothing any more", async () => {
    const [first, second] = processes();
    using _ = await first.take(ONE);
    await expect(second.take(ONE, { limitMs: 0 })).rejects.toMatchObject({ word: "attachment-locked", code: 11 });
    await expect(second.take(ONE, { signal: AbortSignal.abort(new Error("caller gone")) })).rejects.toThrow("caller gone");
  });

  it("of attachments with different digits are independent", async () => {
    const [first, second] = processes();
    using _ = await first.take(`000${ONE}`);
    using other = await second.take(`001${ONE}`);
    expect(other).toBeDefined();
  });
});
