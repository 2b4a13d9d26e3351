import type { AttachmentService } from "../../../../agent/server/attachment-service.ts";
import { cniHandlers } from "../../../../agent/server/routes/cni.ts";

describe("the deadline of a call", () => {
  it.each([["1000"], ["2000"]])("seven:7: leaves time to work, and ends before the caller's %s ms", async (given) => {
    const aborted: boolean[] = [];
    const service: AttachmentService = {
      isKnown: () => false,
      async serve(_, __, { signal }) {
        await Bun.sleep(20);
        aborted.push(signal.aborted);
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        return { status: 200, body: "", headers: {} };
      },
    };
    const request = {
      params: undefined,
      query: undefined,
      body: { protocol: 1, plugin: "test", containerId: "c1", ifname: "eth0", stdin: "{}" },
      headers: { "tortie-deadline-ms": given },
      peer: { pid: 1, uid: 0, gid: 0, groups: [] },
      access: "everything",
      signal: new AbortController().signal,
    } as const;
    const answer = cniHandlers(service).cniAdd(request);
    const late = Bun.sleep(Number(given)).then(() => "late");
    expect(await Promise.race([answer, late])).toMatchObject({ status: 200 });
    expect(aborted).toEqual([false]);
  });
});
