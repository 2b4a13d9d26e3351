/** What happens to a node with a store of its own, besides what can happen to any (test/support/restless/episodes.ts). */
import type { Pod } from "../../support/node.ts";
import { busy, PAUSE_SECONDS } from "../../support/restless/episodes.ts";
import type { Episode } from "../../support/restless/suite.ts";
import { installedAtOnce } from "./installers.ts";
import type { World } from "./world.ts";

const HOUR_SECONDS = 3_600;

export const LOCAL_EPISODES: readonly Episode<World>[] = [
  { name: "a path is used again by another container (G2)", faults: 1, play: (world) => reusedPath(world, "container") },
  { name: "a path is used again by the host (G2)", faults: 2, play: (world) => reusedPath(world, "host") },
  {
    name: "a process id is used again by another container",
    faults: 1,
    play: (world) => reusedPath(world, "container", world.newProcess()),
  },
  { name: "a process id is used again by the host", faults: 2, play: (world) => reusedPath(world, "host", world.newProcess()) },
  { name: "sandboxes that only descriptors reach (G1)", faults: 2, play: descriptors },
  { name: "the clock is set", faults: 1, play: clockSet },
  { name: "the machine sleeps", faults: 1, play: machineSleeps },
  { name: "somebody changes the inside of a pod", faults: 1, play: changedInside },
  { name: "nobody gets addresses for a while", faults: 1, play: pausedAddresses },
  { name: "two installers side by side (N7)", faults: 1, play: twoInstallers },
];

async function reusedPath(world: World, by: "container" | "host", sandbox?: Promise<Pod>): Promise<readonly string[]> {
  const dead = await world.start({ pod: await sandbox });
  if (dead === undefined) return world.quiet();
  const isAway = world.random() < 0.5;
  await world.kill(dead);
  if (isAway) await world.killAgent();
  const leaveHost = by === "host" ? await world.leadToHost(dead.pod) : () => undefined;
  const other = by === "host" ? undefined : await world.reusePath(dead.pod);
  // A list that is off: the agent may be away.
  const living = other === undefined ? undefined : await world.start({ mode: "off", pod: other });
  const wrong = await world.quiet();
  // The late DEL has the path that the runtime knows, or none, or there is only a GC.
  const late = world.oneOf("path", "none", "collected");
  if (late === "collected") {
    world.containers.delete(dead);
    await world.collect([...world.containers]);
  } else await world.del(dead, { netns: late === "none" ? "" : dead.pod.netnsPath });
  await leaveHost();
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
  await world.del(first, { netns: "" });
  await world.removeSandbox(first.pod);
  return [...wrong, ...(await world.quiet())];
}

async function clockSet(world: World): Promise<readonly string[]> {
  const leaving = await world.start();
  const staying = await world.start({ mode: world.oneOf("require", "off") });
  await world.killAgent();
  if (leaving !== undefined) await world.stop(leaving);
  world.setClock(world.oneOf(-HOUR_SECONDS, HOUR_SECONDS), world.oneOf("agent", "plugins", "both"));
  const direct = await world.start({ mode: "off" });
  await world.restartAgent();
  const wrong = await world.quiet();
  if (staying !== undefined) await world.stop(staying);
  if (direct !== undefined) await world.stop(direct, world.oneOf("require", "off"));
  world.resetClock();
  if (world.random() < 0.5) await world.restartAgent();
  return [...wrong, ...(await world.quiet())];
}

async function machineSleeps(world: World): Promise<readonly string[]> {
  const [leaving, staying] = [await world.start(), await world.start()];
  await world.killAgent();
  if (leaving !== undefined) await world.stop(leaving);
  const direct = await world.start({ mode: "off" });
  world.sleepMachine(HOUR_SECONDS);
  // Its DEL is queued after the sleep, its record was written before it.
  if (direct !== undefined) await world.stop(direct, world.oneOf("require", "off"));
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

async function pausedAddresses(world: World): Promise<readonly string[]> {
  const paused = world.pauseAddresses(1 + world.below(PAUSE_SECONDS));
  await busy(world);
  await paused;
  return world.quiet();
}

async function twoInstallers(world: World): Promise<readonly string[]> {
  const [wrong] = await Promise.all([installedAtOnce(world), busy(world)]);
  return [...wrong, ...(await world.quiet())];
}
