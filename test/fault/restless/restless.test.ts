/**
 * The restless world: episodes in an order that a seed chooses, until the time is over, each judged from outside. After a violation the node
 * is made anew, so that one defect does not hide the next. By hand: TORTIE_RESTLESS_SECONDS, TORTIE_RESTLESS_SEED, TORTIE_RESTLESS_EPISODES
 * (a regular expression); TORTIE_TEST_BIN names the executables of another tree (CONTRIBUTING.md).
 */
import { seededRandom } from "../../support/seeded-random.ts";
import { EPISODES, type Episode } from "./episodes.ts";
import { World } from "./world.ts";

const SECONDS = Number(process.env.TORTIE_RESTLESS_SECONDS ?? 150);
const SEED = Number(process.env.TORTIE_RESTLESS_SEED ?? 1);
const CHOSEN = EPISODES.filter(({ name }) => new RegExp(process.env.TORTIE_RESTLESS_EPISODES ?? "").test(name));
/** Containers that stay from one episode to the next. */
const MOST_CONTAINERS = 12;
/** An episode that has begun is played to its end. */
const LONGEST_EPISODE_MS = 240_000;

/** Every episode once before any of them comes again. */
function* shuffled(random: () => number): Generator<Episode, never> {
  for (;;) {
    const deck = CHOSEN.map((episode) => ({ episode, place: random() })).sort((one, other) => one.place - other.place);
    for (const { episode } of deck) yield episode;
  }
}

describe("A restless node", () => {
  it("has episodes to play", () => expect(CHOSEN).not.toEqual([]));

  it(
    "never doubles, loses, leaks or touches anything",
    async () => {
      const random = seededRandom(SEED);
      const found: string[] = [];
      const tally = { episodes: 0, operations: 0, faults: 0 };
      let world = await World.create(random);
      const end = performance.now() + SECONDS * 1_000;
      try {
        for (const episode of shuffled(random)) {
          if (performance.now() > end) break;
          tally.episodes++;
          tally.faults += episode.faults;
          const wrong = await episode.play(world).catch((error: unknown) => [`broken: ${error}`]);
          if (wrong.length > 0) {
            found.push(...[...new Set(wrong)].map((what) => `seed ${SEED}, episode ${tally.episodes}, ${episode.name}: ${what}`));
            tally.operations += world.operations;
            await world[Symbol.asyncDispose]();
            world = await World.create(random);
          }
          for (const one of [...world.containers].slice(MOST_CONTAINERS)) await world.stop(one);
        }
      } finally {
        tally.operations += world.operations;
        await world[Symbol.asyncDispose]();
      }
      const { episodes, operations, faults } = tally;
      process.stdout.write(
        `restless: ${episodes} episodes, ${operations} operations, ${faults} faults, seed ${SEED}, ${found.length} violations\n`,
      );
      for (const line of found) process.stdout.write(`  ${line.slice(0, 400)}\n`);
      expect(found).toEqual([]);
      expect(episodes).toBeGreaterThan(0);
    },
    SECONDS * 1_000 + LONGEST_EPISODE_MS,
  );
});
