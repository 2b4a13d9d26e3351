/**
 * Episodes in an order that a seed chooses, until the time is over, each judged from outside. After a violation the world is made again, so
 * that one defect does not hide the next. By hand: TORTIE_RESTLESS_SECONDS, TORTIE_RESTLESS_SEED, TORTIE_RESTLESS_EPISODES (a regular
 * expression), TORTIE_RESTLESS_TRACES (a folder for the calls and the agent's log of each episode that went wrong); TORTIE_TEST_BIN names the executables of another tree (CONTRIBUTING.md).
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { seededRandom } from "../seeded-random.ts";
import type { RestlessWorld } from "./world.ts";

export interface Episode<W extends RestlessWorld> {
  readonly name: string;
  /** What of it is a fault, for the tally. */
  readonly faults: number;
  /** @returns what the judge has found */
  readonly play: (world: W) => Promise<readonly string[]>;
}

export interface Suite<W extends RestlessWorld> {
  /** Before the tally. */
  readonly title: string;
  readonly episodes: readonly Episode<W>[];
  readonly create: (random: () => number) => Promise<W>;
  /** How long it plays unless told otherwise. */
  readonly seconds: number;
}

const SEED = Number(process.env.TORTIE_RESTLESS_SEED ?? 1);
const CHOSEN = new RegExp(process.env.TORTIE_RESTLESS_EPISODES ?? "");
const TRACES = process.env.TORTIE_RESTLESS_TRACES;
/** Containers that stay from one episode to the next. */
const MOST_CONTAINERS = 12;
/** An episode that has begun is played to its end. */
const LONGEST_EPISODE_MS = 240_000;

/** The two tests of a restless world; the second prints its tally. */
export function testRestless<W extends RestlessWorld>({ title, episodes, create, ...suite }: Suite<W>): void {
  const seconds = Number(process.env.TORTIE_RESTLESS_SECONDS ?? suite.seconds);
  const chosen = episodes.filter(({ name }) => CHOSEN.test(name));

  it("has episodes to play", () => expect(chosen).not.toEqual([]));

  it(
    "never doubles, loses, leaks or touches anything",
    async () => {
      const random = seededRandom(SEED);
      const found: string[] = [];
      const tally = { episodes: 0, operations: 0, faults: 0 };
      let world = await create(random);
      const end = performance.now() + seconds * 1_000;
      const close = async () => {
        tally.operations += world.operations;
        await world[Symbol.asyncDispose]();
      };
      try {
        for (const { name, faults, play } of shuffled(chosen, random)) {
          if (performance.now() > end) break;
          tally.episodes++;
          tally.faults += faults;
          const wrong = await play(world).catch((error: unknown) => [`broken: ${error}`]);
          if (wrong.length > 0) {
            if (TRACES !== undefined) {
              mkdirSync(TRACES, { recursive: true });
              writeFileSync(join(TRACES, `seed-${SEED}-episode-${tally.episodes}.log`), world.trace);
            }
            found.push(...[...new Set(wrong)].map((what) => `seed ${SEED}, episode ${tally.episodes}, ${name}: ${what}`));
            // What it finds at the end is what was found already.
            await close().catch(() => undefined);
            world = await create(random);
          }
          for (const one of [...world.containers].slice(MOST_CONTAINERS)) await world.stop(one);
        }
      } finally {
        const counts = `${tally.episodes} episodes, ${tally.operations + world.operations} operations, ${tally.faults} faults`;
        process.stdout.write(`${title}: ${counts}, seed ${SEED}, ${found.length} violations\n`);
        for (const line of found) process.stdout.write(`  ${line.slice(0, 400)}\n`);
        await close();
      }
      expect(found).toEqual([]);
      expect(tally.episodes).toBeGreaterThan(0);
    },
    seconds * 1_000 + LONGEST_EPISODE_MS,
  );
}

/** Every episode once before any of them comes again. */
function* shuffled<E>(episodes: readonly E[], random: () => number): Generator<E, never> {
  for (;;) {
    const deck = episodes.map((episode) => ({ episode, place: random() })).sort((one, other) => one.place - other.place);
    for (const { episode } of deck) yield episode;
  }
}
