/**
 * What happens to a node: each episode is a few operations and faults, chosen by the seed, after which everything comes to rest and is
 * judged. Those that were defects once carry their ids.
 */
import type { Container, World } from "./world.ts";

export interface Episode {
  readonly name: string;
  /** What of it is a fault, for the tally. */
  readonly faults: number;
  readonly play: (world: World) => Promise<readonly string[]>;
}

const PAUSE_SECONDS = 3;
/** A call that waits for the addresses has begun by then. */
const UNDER_WAY_MS = 600;

export const EPISODES: readonly Episode[] = [
  { name: "containers come and go", faults: 0, play: comeAndGo },
  { name: "a path is used again by another container (G2)", faults: 1, play: (world) => reusedPath(world, "container") },
  { name: "a path is used again by the host (G2)", faults: 2, play: (world) => reusedPath(world, "host") },
  { name: "sandboxes that only descriptors reach (G1)", faults: 2, play: descriptors },
  { name: "a DEL or a GC beside an agent that is away (G3)", faults: 1, play: beside },
  { name: "an ADD meets a GC with a partial list (G7)", faults: 1, play: collectedMeanwhile },
  { name: "a queued DEL, its path used again (G8)", faults: 2, play: queuedDel },
  { name: "the agent is killed during calls", faults: 1, play: killedAgent },
  { name: "the agent is replaced during calls", faults: 1, play: replacedAgent },
  { name: "the clock is set", faults: 1, play: clockSet },
  { name: "somebody changes the inside of a pod", faults: 1, play: changedInside },
  { name: "somebody takes a link or a route of the host", faults: 1, play: takenFromHost },
  { name: "nobody gets addresses for a while", faults: 1, play: pausedAddresses },
];

async function comeAndGo(world: World): Promise<readonly string[]> {
  await Promise.all(Array.from({ length: 2 + world.below(3) }, () => world.start(world.oneOf("auto", "auto", "off"))));
  const leaving = [...world.containers].filter(() => world.random() < 0.5);
  await Promise.all(leaving.map((one) => world.stop(one, world.oneOf("auto", "off"))));
  return world.quiet();
}

async function reusedPath(world: World, by: "container" | "host"): Promise<readonly string[]> {
  const dead = await world.start();
  if (dead === undefined) return world.quiet();
  const isAway = world.random() < 0.5;
  await world.kill(dead);
  if (isAway) await world.killAgent();
  const leaveHost = by === "host" ? world.leadToHost(dead.pod) : () => undefined;
  const other = by === "host" ? undefined : await world.reusePath(dead.pod);
  // A list that is off: the agent may be away.
  const living = other === undefined ? undefined : await world.start("off", other);
  const wrong = await world.quiet();
  // The late DEL has the path that the runtime knows, or none, or there is only a GC.
  const late = world.oneOf(by === "host" ? "none" : "path", "none", "collected");
  if (late === "collected") {
    world.containers.delete(dead);
    await world.collect([...world.containers]);
  } else await world.del(dead, "auto", late === "none" ? "" : dead.pod.netnsPath);
  leaveHost();
  const wrongAfter = await world.quiet();
  if (living !== undefined) await world.stop(living);
  return [...wrong, ...wrongAfter, ...(await world.quiet())];
}

async function descriptors(world: World): Promise<readonly string[]> {
  const first = await world.startByDescriptor();
  if (first === undefined) return world.quiet();
  // The link goes, and the agent looks for it while the next caller's descriptors are open.
  await world.node.podIp(first.pod, "link", "del", "eth0");
  first.isDead = true;
  const paused = world.pauseAddresses(PAUSE_SECONDS);
  const others = await Promise.all(Array.from({ length: 1 + world.below(3) }, () => world.startByDescriptor()));
  await paused;
  const wrong = await world.quiet();
  for (const one of others) if (one !== undefined) await world.stop(one);
  await world.del(first, "auto", "");
  await world.removeSandbox(first.pod);
  return [...wrong, ...(await world.quiet())];
}

async function beside(world: World): Promise<readonly string[]> {
  const leaving = await world.start();
  if (leaving === undefined) return world.quiet();
  await world.killAgent();
  if (world.random() < 0.5) await world.del(leaving, "off");
  else {
    world.containers.delete(leaving);
    await world.collect([...world.containers], world.oneOf("auto", "off"));
  }
  // The sandbox stays for a while, as some runtimes let it.
  await world.restartAgent();
  const wrong = await world.quiet();
  const next = await world.start();
  const wrongAfter = await world.quiet();
  await world.removeSandbox(leaving.pod);
  if (next !== undefined) await world.stop(next);
  return [...wrong, ...wrongAfter, ...(await world.quiet())];
}

async function collectedMeanwhile(world: World): Promise<readonly string[]> {
  const stale = await world.start();
  const again = await world.start();
  if (stale === undefined || again === undefined) return world.quiet();
  await world.kill(stale);
  world.containers.delete(stale);
  const kept = [...world.containers].filter((one) => one !== again);
  const paused = world.pauseAddresses(PAUSE_SECONDS);
  await Bun.sleep(UNDER_WAY_MS / 2);
  const collected = world.collect(kept, "auto", true);
  await Bun.sleep(UNDER_WAY_MS);
  const added = world.node.cni("ADD", { containerId: again.id, pod: again.pod, conf: world.conf("auto") });
  const third = world.start();
  const [run, , other] = await Promise.all([added, collected, third, paused]);
  // The list came before the ADD: whether the container kept its network is between the two, but somebody must have answered.
  if (run.signal !== null) world.complain(`ADD of ${again.id}`, run);
  const probe = await world.start();
  await world.stop(again);
  for (const one of [other, probe]) if (one !== undefined) await world.stop(one);
  return world.quiet();
}

async function queuedDel(world: World): Promise<readonly string[]> {
  const [first, second] = [await world.start(), await world.start()];
  if (first === undefined || second === undefined) return world.quiet();
  await world.killAgent();
  for (const dead of [first, second]) {
    await world.kill(dead);
    await world.del(dead, "auto", dead.pod.netnsPath);
  }
  const living = await world.start("off", await world.reusePath(first.pod));
  // Of another plugin: an agent that takes it away makes it again for nobody.
  const foreign = await world.reusePath(second.pod);
  for (const name of ["eth0", "peer0"]) world.ownLinks.add(`${foreign.name} ${name}`);
  await world.node.podIp(foreign, "link", "add", "eth0", "type", "veth", "peer", "name", "peer0");
  await world.restartAgent();
  const wrong = await world.quiet();
  const left = await world.node.podIp(foreign, "-j", "link", "show");
  if (!left.some(({ ifname }) => ifname === "eth0")) world.complaints.push(`lost: link eth0 of another plugin in ${foreign.name}`);
  if (living !== undefined) await world.stop(living);
  await world.removeSandbox(foreign);
  return [...wrong, ...(await world.quiet())];
}

async function killedAgent(world: World): Promise<readonly string[]> {
  const calls = busy(world);
  await Bun.sleep(world.below(150));
  await world.killAgent();
  if (world.random() < 0.5) await Bun.sleep(world.below(1_000));
  await world.restartAgent();
  await calls;
  return world.quiet();
}

async function replacedAgent(world: World): Promise<readonly string[]> {
  const calls = busy(world);
  await Bun.sleep(world.below(150));
  await world.restartAgent();
  await calls;
  return world.quiet();
}

async function clockSet(world: World): Promise<readonly string[]> {
  const leaving = await world.start();
  const staying = await world.start(world.oneOf("auto", "off"));
  await world.killAgent();
  if (leaving !== undefined) await world.stop(leaving);
  world.setClock(world.oneOf("-1h", "+1h"));
  await world.restartAgent();
  const wrong = await world.quiet();
  if (staying !== undefined) await world.stop(staying);
  return [...wrong, ...(await world.quiet())];
}

async function changedInside(world: World): Promise<readonly string[]> {
  const one = await world.start();
  if (one === undefined) return world.quiet();
  const extra = `10.99.${world.below(250)}.1`;
  one.isChangedInside = true;
  world.ownAddresses.add(extra);
  await world.node.podIp(one.pod, "route", "del", "default");
  await world.node.podIp(one.pod, "address", "add", `${extra}/32`, "dev", "eth0");
  const before = JSON.stringify(await world.node.podIp(one.pod, "-j", "route"));
  if (world.random() < 0.5) {
    await world.killAgent();
    await world.restartAgent();
  }
  const wrong = await world.quiet();
  const after = JSON.stringify(await world.node.podIp(one.pod, "-j", "route"));
  if (after !== before) world.complaints.push(`reverted: routes in ${one.pod.name} were ${before}, are ${after}`);
  await world.stop(one);
  return [...wrong, ...(await world.quiet())];
}

async function takenFromHost(world: World): Promise<readonly string[]> {
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

async function pausedAddresses(world: World): Promise<readonly string[]> {
  const paused = world.pauseAddresses(1 + world.below(PAUSE_SECONDS));
  await busy(world);
  await paused;
  return world.quiet();
}

/** Containers that come and go at once; the agent may fail them, and none may be left behind. */
async function busy(world: World): Promise<void> {
  const leaving: readonly Container[] = [...world.containers].filter(() => world.random() < 0.4);
  const coming = Array.from({ length: 2 + world.below(4) }, () => world.start(world.oneOf("auto", "auto", "off"), undefined, true));
  await Promise.all([...coming, ...leaving.map((one) => world.stop(one))]);
}
