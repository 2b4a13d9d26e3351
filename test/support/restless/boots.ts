/** Episodes about what an agent finds when it starts: pods of another boot, pods that were there before it, a /run without room. */
import { busy, LONG_WAIT_SECONDS } from "./episodes.ts";
import type { Container } from "./runtime.ts";
import type { Episode } from "./suite.ts";
import type { RestlessWorld } from "./world.ts";

/** An agent comes so much later than the first ADDs. */
const LATEST_START_MS = 1_000;

export const BOOTS: readonly Episode<RestlessWorld>[] = [
  { name: "the node reboots (H1, R1)", faults: 2, play: rebooted },
  { name: "the agent comes after its pods (H1)", faults: 1, play: lateAgent },
  { name: "/run has no room (N6)", faults: 1, play: fullRun },
];

async function rebooted(world: RestlessWorld): Promise<readonly string[]> {
  await Promise.all([world.start(), world.start({ mode: "off" })]);
  await world.reboot();
  const dead = [...world.containers];
  const isAgentFirst = world.random() < 0.5;
  if (isAgentFirst) await world.replaceAgent();
  world.waitSeconds = LONG_WAIT_SECONDS;
  const starting = Promise.all(dead.slice(0, 4).map(async (one) => world.start({ pod: await sandboxAfter(world, one) })));
  if (!isAgentFirst) {
    await Bun.sleep(world.below(LATEST_START_MS));
    // The runtime knows which sandboxes it has lost before the agent is there, or after.
    if (world.random() < 0.5) await deleteAll(world, dead);
    await world.replaceAgent();
  }
  const living = await starting;
  const wrong = await world.quiet();
  await deleteAll(world, dead);
  const wrongAfter = await world.quiet();
  for (const one of living) if (one !== undefined) await world.stop(one);
  await world.replaceAgent(false);
  return [...wrong, ...wrongAfter, ...(await world.quiet())];
}

/** The new container of a pod has its sandbox where the one before the reboot had it, or somewhere else. */
async function sandboxAfter(world: RestlessWorld, dead: Container) {
  return world.random() < 0.5 ? world.reusePath(dead.pod) : world.newSandbox();
}

/** DEL with the path that the runtime knows, or with none; or a GC that names those that live. */
async function deleteAll(world: RestlessWorld, dead: readonly Container[]): Promise<void> {
  const left = dead.filter((one) => world.containers.has(one));
  for (const one of left) await world.del(one, { netns: world.oneOf("", one.pod.netnsPath) });
}

async function lateAgent(world: RestlessWorld): Promise<readonly string[]> {
  for (const one of world.containers) await world.stop(one);
  await world.loseRecords();
  const early = await Promise.all(Array.from({ length: 2 + world.below(3) }, () => world.start({ mode: "off" })));
  await world.replaceAgent();
  const wrong = await world.quiet();
  const later = await Promise.all([world.start(), world.start()]);
  const wrongAfter = await world.quiet();
  // Its network configuration has led to the agent since.
  for (const one of [...early, ...later]) if (one !== undefined && world.random() < 0.7) await world.stop(one, "require");
  await world.replaceAgent(false);
  return [...wrong, ...wrongAfter, ...(await world.quiet())];
}

async function fullRun(world: RestlessWorld): Promise<readonly string[]> {
  await Promise.all([world.start(), world.start()]);
  world.operations++;
  world.boot.fill(world.oneOf("bytes", "inodes"));
  try {
    await busy(world);
    for (const one of [...world.containers].slice(0, 2)) await world.stop(one);
  } finally {
    world.boot.makeRoom();
  }
  return world.quiet();
}
