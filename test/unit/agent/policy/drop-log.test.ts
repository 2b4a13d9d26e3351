import { followDropLog, LinkNames } from "../../../../agent/policy/drop-log.ts";
import type { Netlink } from "../../../../dataplane/netlink/socket.ts";
import type { LogListener } from "../../../../dataplane/nflog/group.ts";
import { Health } from "../../../../lib/resident/health.ts";
import { Tasks } from "../../../../lib/resident/tasks.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

/** A kernel whose group may be taken, and an agent's parts. */
function world() {
  const clock = new FakeClock();
  const controllers = new Tasks({ clock });
  const health = new Health(() => "ready", clock);
  const lines: string[] = [];
  const state = { isTaken: false, opened: 0, closed: 0, listener: undefined as LogListener | undefined, missed: 0 };
  const followed = followDropLog({
    group: 7,
    drops: {
      take() {
        throw new Error("a defect");
      },
      miss(count) {
        state.missed += count;
      },
    },
    controllers,
    health,
    log: { info: (text) => void lines.push(text), error: (text) => void lines.push(text) },
    async listen(group, listener) {
      if (state.isTaken) throw new Error(`group ${group} is taken`);
      state.opened++;
      state.listener = listener;
      return { [Symbol.dispose]: () => void state.closed++ };
    },
  });
  const findings = () => health.document().findings;
  return { clock, state, lines, findings, followed };
}

describe("listening to the kernel's packet log", () => {
  it("goes on without while another program has the group, says so once, and takes it when it is free", async () => {
    const { clock, state, lines, findings, followed } = world();
    state.isTaken = true;
    await clock.advance(0);
    // The first run began before the group was taken.
    state.listener?.onEnd(undefined);
    await clock.advance(200_000);
    const said = "dropped packets are counted, but not shown: group 7 is taken";
    expect(findings()).toEqual([said]);
    expect(lines.filter((line) => line === said)).toHaveLength(1);
    state.isTaken = false;
    await clock.advance(100_000);
    expect(findings()).toEqual([]);
    await followed[Symbol.asyncDispose]();
    expect(state.opened).toBe(state.closed + 1);
  });

  it("opens the log again when it ends, and counts what could not be explained", async () => {
    const { clock, state, lines, followed } = world();
    await clock.advance(0);
    expect(state.opened).toBe(1);
    const packet = { prefix: "", inInterface: 1, outInterface: 2, sequence: 1, header: undefined };
    state.listener?.onPackets([packet, packet]);
    state.listener?.onLost(3);
    expect(state.missed).toBe(5);
    expect(lines).toEqual(["dropped packets could not be explained"]);
    state.listener?.onEnd(new Error("away"));
    await clock.advance(0);
    expect(state.opened).toBe(2);
    await followed[Symbol.asyncDispose]();
    expect(state.closed).toBe(1);
  });
});

describe("names of links", () => {
  it("are asked of the kernel once a second at most", async () => {
    const clock = new FakeClock();
    const asked: number[] = [];
    const socket: Netlink = {
      request({ payload }) {
        asked.push(new DataView(payload.buffer, payload.byteOffset).getInt32(4, true));
        return [];
      },
      dump: () => [],
      batch: () => undefined,
    };
    const names = new LinkNames(socket, clock);
    expect([names.nameOf(3), names.nameOf(3), names.nameOf(4)]).toEqual([undefined, undefined, undefined]);
    expect(asked).toEqual([3, 4]);
    await clock.advance(1000);
    names.nameOf(3);
    expect(asked).toEqual([3, 4, 3]);
  });
});
