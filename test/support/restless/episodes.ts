/**
 * What can happen to any node: each episode is a few operations and faults, chosen by the seed, after which everything comes to rest and is
 * judged. Those that were defects once carry their ids.
 */
import type { Container } from "./runtime.ts";
import type { Episode } from "./suite.ts";
import type { RestlessWorld } from "./world.ts";

/** How long nobody gets addresses. */
export const PAUSE_SECONDS = 3;
/** Of an ADD, where the agent comes back meanwhile: longer than its start takes on a busy machine. */
export const LONG_WAIT_SECONDS = 15;
/** CNI: try again later. */
const TRY_AGAIN = 11;
/** A call that waits for the addresses has begun by then. */
const UNDER_WAY_MS = 600;

export const EPISODES: readonly Episode<RestlessWorld>[] = [
  { name: "containers come and go", faults: 0, play: comeAndGo },
  { name: "a DEL or a GC beside an agent that is away (G3)", faults: 1, play: beside },
  { name: "an ADD meets a GC with a partial list (G7)", faults: 1, play: collectedMeanwhile },
  { name: "a queued DEL, its path used again (G8)", faults: 2, play: queuedDel },
  { name: "the agent is killed during calls", faults: 1, play: killedAgent },
  { name: "calls outlive the agent that they were sent to", faults: 2, play: outlived },
  { name: "an ADD waits for an agent, and no plugin adds in its place", faults: 1, play: awaited },
  { name: "the agent is replaced during calls", faults: 1, play: replacedAgent },
  { name: "somebody takes a link or a route of the host", faults: 1, play: takenFromHost },
];

async function comeAndGo(world: RestlessWorld): Promise<readonly string[]> {
  await Promise.all(Array.from({ length: 2 + world.below(3) }, () => world.start({ mode: world.oneOf("require", "require", "off") })));
  const leaving = [...world.containers].filter(() => world.random() < 0.5);
  await Promise.all(leaving.map((one) => world.stop(one)));
  return world.quiet();
}

async function beside(world: RestlessWorld): Promise<readonly string[]> {
  const leaving = await world.start();
  if (leaving === undefined) return world.quiet();
  await world.killAgent();
  const mode = world.oneOf("require", "off");
  const isDeleted = world.random() < 0.5;
  if (isDeleted) await world.del(leaving);
  else world.containers.delete(leaving);
  const isCollected = isDeleted || (await world.collect([...world.containers], mode, mode === "require"));
  // The sandbox stays for a while, as some runtimes let it.
  await world.restartAgent();
  // Nobody collects in the agent's place: the runtime asks once more.
  if (!isCollected) await world.collect([...world.containers]);
  const wrong = await world.quiet();
  const next = await world.start();
  const wrongAfter = await world.quiet();
  await world.removeSandbox(leaving.pod);
  if (next !== undefined) await world.stop(next);
  return [...wrong, ...wrongAfter, ...(await world.quiet())];
}

export async function collectedMeanwhile(world: RestlessWorld): Promise<readonly string[]> {
  const stale = await world.start();
  const again = await world.start();
  if (stale === undefined || again === undefined) return world.quiet();
  await world.kill(stale);
  world.containers.delete(stale);
  const kept = [...world.containers].filter((one) => one !== again);
  const paused = world.pauseAddresses(PAUSE_SECONDS);
  await Bun.sleep(UNDER_WAY_MS / 2);
  const collected = world.collect(kept, "require", true);
  await Bun.sleep(UNDER_WAY_MS);
  const added = world.call("ADD", again.id, "require", { pod: again.pod });
  const third = world.start();
  const [run, , other] = await Promise.all([added, collected, third, paused]);
  // The list came before the ADD: whether the container kept its network is between the two, but somebody must have answered.
  if (run.signal !== null) world.complain(`ADD of ${again.id}`, run);
  const probe = await world.start();
  await world.stop(again);
  for (const one of [other, probe]) if (one !== undefined) await world.stop(one);
  return world.quiet();
}

async function queuedDel(world: RestlessWorld): Promise<readonly string[]> {
  const [first, second] = [await world.start(), await world.start()];
  if (first === undefined || second === undefined) return world.quiet();
  await world.killAgent();
  for (const dead of [first, second]) {
    await world.kill(dead);
    await world.del(dead, { netns: dead.pod.netnsPath });
  }
  const living = await world.start({ mode: "off", pod: await world.reusePath(first.pod) });
  // Of another plugin: an agent that takes it away makes it again for nobody.
  const foreign = await world.reusePath(second.pod);
  for (const name of ["eth0", "peer0"]) world.ownLinks.add(`${foreign.name} ${name}`);
  await world.node.podIp(foreign, "link", "add", "eth0", "type", "veth", "peer", "name", "peer0");
  await world.restartAgent();
  const wrong = await world.quiet();
  if (living !== undefined) await world.stop(living);
  await world.removeSandbox(foreign);
  return [...wrong, ...(await world.quiet())];
}

async function killedAgent(world: RestlessWorld): Promise<readonly string[]> {
  world.waitSeconds = world.oneOf(1, LONG_WAIT_SECONDS);
  await busy(world, {
    async meanwhile() {
      await Bun.sleep(world.below(150));
      await world.killAgent();
      if (world.random() < 0.5) await Bun.sleep(world.below(1_000));
      await world.restartAgent();
    },
  });
  return world.quiet();
}

/** The next agent takes back what the first one left, and serves the calls that were repeated. */
async function outlived(world: RestlessWorld): Promise<readonly string[]> {
  world.waitSeconds = world.oneOf(1, LONG_WAIT_SECONDS);
  const paused = world.pauseAddresses(2 * PAUSE_SECONDS);
  await busy(world, {
    async meanwhile() {
      await Bun.sleep(UNDER_WAY_MS);
      await world.killAgent();
      await Bun.sleep(2 * UNDER_WAY_MS + world.below(1_000));
      await world.restartAgent();
      await paused;
    },
  });
  return world.quiet();
}

async function awaited(world: RestlessWorld): Promise<readonly string[]> {
  const leaving = await world.start();
  await world.killAgent();
  const [id, pod] = [await world.prepare(), await world.newSandbox()];
  const refused = await world.call("ADD", id, "require", { pod });
  if (refused.exit === 0 || !isTryAgain(refused.json))
    world.complain(`ADD of ${id} without an agent, which must say "try again",`, refused);
  const left = (await world.node.podIp(pod, "-j", "link", "show")).filter(({ ifname }) => ifname !== "lo");
  if (left.length > 0) world.complaints.push(`unasked: ${JSON.stringify(left)} in ${pod.name}, whose ADD had no agent`);
  if (leaving !== undefined) await world.stop(leaving);
  world.waitSeconds = LONG_WAIT_SECONDS;
  const waiting = [world.start({ id, pod }), world.start()];
  await Bun.sleep(world.below(1_000));
  await world.restartAgent();
  await Promise.all(waiting);
  return world.quiet();
}

function isTryAgain(answer: unknown): boolean {
  return typeof answer === "object" && answer !== null && "code" in answer && answer.code === TRY_AGAIN;
}

async function replacedAgent(world: RestlessWorld): Promise<readonly string[]> {
  await busy(world, {
    // A slow server's DEL is cut off by an agent that ends: `agent-stopping`, which the runtime repeats (docs/reference/errors.md).
    mayFail: true,
    async meanwhile() {
      await Bun.sleep(world.below(150));
      await world.restartAgent();
    },
  });
  return world.quiet();
}

async function takenFromHost(world: RestlessWorld): Promise<readonly string[]> {
  const one = await world.start();
  if (one === undefined) return world.quiet();
  const isRoute = world.random() < 0.5;
  // The agent makes either of them again: the container is judged as one that has everything.
  if (isRoute) await world.node.ip("route", "del", one.addresses.find((address) => !address.includes(":")) ?? "");
  else await world.node.podIp(one.pod, "link", "del", "eth0");
  const wrong = await world.quiet();
  await world.stop(one);
  return [...wrong, ...(await world.quiet())];
}

export interface BusyOptions {
  /** A DEL may fail too: the runtime repeats it. */
  readonly mayFail?: boolean;
  /** What happens while the calls run. */
  readonly meanwhile?: () => Promise<void>;
}

/** Containers that come and go at once; the agent may fail them, and none may be left behind. */
export async function busy(world: RestlessWorld, { mayFail = false, meanwhile }: BusyOptions = {}): Promise<void> {
  const leaving: readonly Container[] = [...world.containers].filter(() => world.random() < 0.4);
  const ids = await Promise.all(Array.from({ length: 2 + world.below(4) }, () => world.prepare()));
  const coming = ids.map((id) => world.start({ id, mode: world.oneOf("require", "require", "off"), mayFail: true }));
  const going = leaving.map((one) => world.stop(one, one.mode, mayFail));
  await Promise.all([...coming, ...going, meanwhile?.()]);
}
