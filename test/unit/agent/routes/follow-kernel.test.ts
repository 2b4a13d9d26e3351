import { followKernel } from "../../../../agent/routes/follow-kernel.ts";
import type { ChangeListener } from "../../../../dataplane/linux/kernel-changes.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { fresh } from "../../../support/fixtures.ts";

class World {
  readonly clock = new FakeClock();
  readonly looks: number[] = [];
  readonly errors: string[] = [];
  opened = 0;
  fails = false;
  listener: ChangeListener | undefined;
  run: () => Promise<void> = async () => {};

  constructor() {
    followKernel({
      listen: async (listener) => {
        if (this.fails) throw new Error("no socket");
        this.opened++;
        this.listener = listener;
        return { [Symbol.dispose]() {} };
      },
      look: () => this.looks.push(this.clock.now()),
      controllers: {
        update: (_name, { run }) => {
          this.run = () => run(new AbortController().signal);
        },
        trigger: () => {
          void this.run();
          return true;
        },
      },
      clock: this.clock,
      log: { error: (text) => this.errors.push(text) },
    });
  }
}

const world = fresh(() => new World());

describe("Changes of the kernel", () => {
  it("X2: call for one look per burst, 200 ms after its first, and for no more than one in 800 ms", async () => {
    await world.run();
    await world.clock.advance(200);
    const start = world.clock.now();
    expect(world.looks).toEqual([start]);
    for (let at = 0; at < 2_000; at += 100) {
      world.listener?.onChange();
      await world.clock.advance(100);
    }
    await world.clock.advance(1_000);
    expect(world.looks.map((at) => at - start)).toEqual([0, 800, 1600, 2400]);
  });

  it("are listened for again when the socket ends, with a look at what was missed", async () => {
    await world.run();
    await world.clock.advance(2_000);
    world.listener?.onEnd(new Error("ENOBUFS"));
    await world.clock.advance(1_000);
    await world.clock.advance(1_000);
    expect([world.opened, world.looks.length, world.errors.length]).toEqual([2, 2, 1]);
  });

  it("say why where they cannot be listened for", async () => {
    world.fails = true;
    await expect(world.run()).rejects.toThrow("noticed once a minute only: no socket");
  });
});
