/** What happens between a node and its API server, besides what can happen to any node (test/support/restless/episodes.ts). */
import { busy, collectedMeanwhile } from "../../support/restless/episodes.ts";
import type { Episode } from "../../support/restless/suite.ts";
import type { ClusterWorld } from "./world.ts";

const WRITES = ["POST", "PUT", "PATCH", "DELETE"];
const LONGEST_STOP_MS = 6_000;
const LONGEST_DELAY_MS = 2_000;
/** Within it a client has read what its kubeconfig names now. */
const RENEWAL_MS = 6_000;
/** Of IPv4, in a pool of 256 addresses. A block of all of them overlaps whatever is there. */
const BLOCK_SIZES = [24, 24, 25, 27, 29] as const;
/** Kinds whose writes decide what a pod has. */
const DECISIVE = ["ipamblocks", "ipamhandles", "blockaffinities", "/pods/"] as const;

export const CLUSTER_EPISODES: readonly Episode<ClusterWorld>[] = [
  { name: "watches are frozen", faults: 1, play: frozenWatches },
  { name: "the API server stands still", faults: 1, play: (world) => paused(world, "apiserver") },
  { name: "etcd stands still", faults: 1, play: (world) => paused(world, "etcd") },
  { name: "the API server is killed, and has forgotten its history", faults: 2, play: restarted },
  { name: "writes are carried out and not answered, or twice, or not at all", faults: 3, play: unanswered },
  { name: "the API server answers late", faults: 1, play: late },
  { name: "the API server refuses everything for a while", faults: 1, play: refused },
  { name: "a GC with a partial list meets ADDs at a slow server", faults: 2, play: collectedSlowly },
  { name: "pods are deleted while the agent is away", faults: 2, play: deletedMeanwhile },
  { name: "a pod's sandbox is made anew", faults: 1, play: sandboxAnew },
  { name: "a DEL while neither agent nor server is there", faults: 2, play: alone },
  { name: "the block size of a pool in use is changed (R2)", faults: 1, play: blockSizeChanged },
  { name: "the server's authority is replaced in place (N5)", faults: 1, play: authorityReplaced },
];

async function frozenWatches(world: ClusterWorld): Promise<readonly string[]> {
  await busy(world, {
    // Some of what these calls write is heard of, some is not.
    async meanwhile() {
      await Bun.sleep(world.below(400));
      world.proxy.freezeWatches();
    },
  });
  if (world.random() < 0.3) await world.restartAgent();
  await busy(world);
  return world.quiet();
}

async function paused(world: ClusterWorld, which: "apiserver" | "etcd"): Promise<readonly string[]> {
  await busy(world, {
    mayFail: true,
    async meanwhile() {
      await Bun.sleep(world.below(300));
      world.freeze(which);
      if (world.random() < 0.3) await world.killAgent();
      await Bun.sleep(world.below(LONGEST_STOP_MS));
      world.thaw();
    },
  });
  return world.quiet();
}

async function restarted(world: ClusterWorld): Promise<readonly string[]> {
  await busy(world, {
    mayFail: true,
    async meanwhile() {
      await Bun.sleep(world.below(200));
      await world.cluster.stopApiServer();
      try {
        if (world.random() < 0.3) await world.killAgent();
        await world.cluster.compact();
      } finally {
        await world.cluster.startApiServer();
      }
    },
  });
  return world.quiet();
}

async function unanswered(world: ClusterWorld): Promise<readonly string[]> {
  for (let fault = 0; fault < 3; fault++) {
    const kind = world.oneOf("lose-answer", "twice", "cut");
    const match = { path: world.oneOf(...DECISIVE), nth: 1 + world.below(3), times: 1 + world.below(2) };
    for (const method of WRITES) world.proxy.on({ ...match, method }, { kind });
  }
  await busy(world, { mayFail: true });
  return world.quiet();
}

async function late(world: ClusterWorld): Promise<readonly string[]> {
  const path = world.oneOf(...DECISIVE, "/api");
  world.proxy.on({ path, times: Number.POSITIVE_INFINITY }, { kind: "delay", ms: world.below(LONGEST_DELAY_MS) });
  await busy(world, { mayFail: true });
  return world.quiet();
}

async function refused(world: ClusterWorld): Promise<readonly string[]> {
  const status = world.oneOf(401, 403, 429, 500, 503);
  world.proxy.on({ times: Number.POSITIVE_INFINITY }, { kind: "answer", status });
  world.proxy.breakConnections();
  await busy(world, { mayFail: true });
  await world.collect([...world.containers], "require", true);
  if (world.random() < 0.5) await world.restartAgent("local");
  await Bun.sleep(world.below(LONGEST_DELAY_MS));
  return world.quiet();
}

async function collectedSlowly(world: ClusterWorld): Promise<readonly string[]> {
  world.proxy.on({ path: /ipam(blocks|handles)/, times: Number.POSITIVE_INFINITY }, { kind: "delay", ms: 100 + world.below(400) });
  return collectedMeanwhile(world);
}

async function deletedMeanwhile(world: ClusterWorld): Promise<readonly string[]> {
  const [gone, anew] = [await world.start(), await world.start({ mode: world.oneOf("require", "off") })];
  await world.killAgent();
  for (const one of [gone, anew]) if (one !== undefined) await world.deletePod(one);
  if (anew !== undefined) await world.createPodAnew(anew);
  // The runtime knows of it before the agent does, or after.
  if (gone !== undefined && world.random() < 0.5) await world.stop(gone);
  await world.restartAgent();
  const wrong = await world.quiet();
  for (const one of [gone, anew]) if (one !== undefined && world.containers.has(one)) await world.stop(one);
  return [...wrong, ...(await world.quiet())];
}

async function sandboxAnew(world: ClusterWorld): Promise<readonly string[]> {
  const former = await world.start();
  if (former === undefined) return world.quiet();
  const isGone = world.random() < 0.5;
  if (isGone) await world.kill(former);
  // The new one takes the name of its link on the host.
  former.isDead = true;
  const next = await world.startAnew(former, world.oneOf("require", "off"));
  const wrong = await world.quiet();
  await world.del(former, isGone ? { netns: world.oneOf("", former.pod.netnsPath) } : {});
  if (!isGone) await world.removeSandbox(former.pod);
  const wrongAfter = await world.quiet();
  if (next !== undefined) await world.stop(next);
  return [...wrong, ...wrongAfter, ...(await world.quiet())];
}

async function alone(world: ClusterWorld): Promise<readonly string[]> {
  const leaving = await world.start();
  if (leaving === undefined) return world.quiet();
  const id = await world.prepare();
  await world.killAgent();
  await world.proxy.refuse();
  await world.start({ id, mayFail: true });
  await world.stop(leaving, "require", true);
  await world.proxy.accept();
  return world.quiet();
}

async function blockSizeChanged(world: ClusterWorld): Promise<readonly string[]> {
  const here = [await world.start(), await world.start({ mode: "off" })];
  await world.setBlockSize(world.oneOf(...BLOCK_SIZES));
  const there = await Promise.all(Array.from({ length: 2 + world.below(6) }, () => world.startElsewhere()));
  const later = [await world.start(), await world.start({ mode: "off" })];
  const wrong = await world.quiet();
  for (const one of [...here, ...there, ...later]) if (one !== undefined) await world.stop(one);
  return [...wrong, ...(await world.quiet())];
}

async function authorityReplaced(world: ClusterWorld): Promise<readonly string[]> {
  await busy(world, { mayFail: true, meanwhile: () => world.replaceAuthority() });
  // What waits for something to renew the session has waited long enough.
  await Bun.sleep(RENEWAL_MS);
  const coming = await Promise.all([world.start(), world.start()]);
  for (const one of coming) if (one !== undefined) await world.stop(one);
  return world.quiet();
}
