import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildEndpoint } from "../../../../agent/endpoints/build/build-endpoint.ts";
import { KernelWork } from "../../../../agent/endpoints/build/kernel-work.ts";
import { NO_SEAMS } from "../../../../agent/endpoints/build/seams.ts";
import { EndpointDirectories } from "../../../../agent/endpoints/record/directories.ts";
import { recordOf } from "../../../support/endpoint-record.ts";

const NEVER = new AbortController().signal;
const work = { level: 1, reason: "restore", isKernelFresh: false } as const;
const directory = mkdtempSync(join(tmpdir(), "tortie-build-"));
afterAll(() => rmSync(directory, { recursive: true }));

/** Notes whose links are looked at. */
class NotedWork extends KernelWork {
  readonly order: string[] = [];
  override async during<T>(id: number, look: () => Promise<T>): Promise<T> {
    this.order.push(`endpoint ${id}`);
    setImmediate(() => this.order.push(`call after ${id}`));
    return await super.during(id, look);
  }
}

function build(id: number, kernelWork: KernelWork, signal = NEVER, isKernelFresh = false): Promise<void> {
  const nothing = () => Promise.reject(new Error("not wanted here"));
  return buildEndpoint(
    {
      dataplane: { apply: nothing, drift: nothing, mend: nothing },
      grants: { isGranted: nothing },
      hold: nothing,
      directories: new EndpointDirectories(directory),
      datapath: NO_SEAMS.datapath,
      kernelWork,
    },
    { record: recordOf(id), state: "regenerating", transition: () => true, note: () => {}, write: (record) => record },
    { ...work, isKernelFresh },
    signal,
  );
}

describe("A build", () => {
  it("S4: lets waiting calls run before it looks at the kernel", async () => {
    const noted = new NotedWork();
    const first = build(4, noted);
    expect(noted.order).toEqual([]);
    await first;
    await build(5, noted);
    expect(noted.order).toEqual(["endpoint 4", "call after 4", "endpoint 5"]);
  });

  it("looks at nothing when it was given up before its turn, or the links have just been made", async () => {
    const noted = new NotedWork();
    const given = new AbortController();
    const outcome = expect(build(4, noted, given.signal)).rejects.toThrow("given up");
    given.abort(new Error("given up"));
    await outcome;
    await build(5, noted, NEVER, true);
    expect(noted.order).toEqual([]);
  });
});
