/** Episodes in which a runtime, or another plugin, gives a call something that is not its container's. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Pod } from "../node.ts";
import { type Container, NETWORK } from "./runtime.ts";
import type { Episode } from "./suite.ts";
import type { RestlessWorld } from "./world.ts";

export const MISTAKEN: readonly Episode<RestlessWorld>[] = [
  { name: "a DEL with a path that is another's (R1, R5, R6)", faults: 2, play: wrongPath },
  { name: "a sandbox has an eth0 of somebody else (R1)", faults: 1, play: foreignInterface },
  { name: "a second network for the same container (R4)", faults: 1, play: secondNetwork },
];

async function wrongPath(world: RestlessWorld): Promise<readonly string[]> {
  const former = await world.start({ mode: world.oneOf("require", "off") });
  const living = await world.start({ mode: world.oneOf("require", "off") });
  if (former === undefined || living === undefined) return world.quiet();
  const isGone = world.random() < 0.5;
  if (isGone) await world.kill(former);
  // An agent that remembers the former sandbox would not be mistaken.
  if (world.random() < 0.5) {
    await world.loseRecords();
    await world.restartAgent();
  }
  await world.del(former, { netns: wrongPathFor(world, living) });
  const wrong = await world.quiet();
  if (!isGone) await world.removeSandbox(former.pod);
  await world.stop(living);
  return [...wrong, ...(await world.quiet())];
}

function wrongPathFor(world: RestlessWorld, living: Container): string {
  const { dir, netnsPath } = world.node;
  const path = join(dir, `path-${world.newId()}`);
  switch (world.oneOf("pod", "pod", "host", "process", "file", "directory", "nothing")) {
    case "pod":
      return living.pod.netnsPath;
    case "host":
      return netnsPath;
    case "process":
      return `/proc/${world.agent.pid}/ns/net`;
    case "file":
      writeFileSync(path, "");
      return path;
    case "directory":
      mkdirSync(path);
      return path;
    default:
      return path;
  }
}

async function foreignInterface(world: RestlessWorld): Promise<readonly string[]> {
  const pod = await world.newSandbox();
  const hostEnd = await makeForeign(world, pod);
  const mode = world.oneOf("require", "off");
  const id = await world.prepare();
  const added = await world.call("ADD", id, mode, { pod });
  if (added.exit === 0) world.complaints.push(`answered: ADD of ${id} succeeded over an eth0 of somebody else`);
  const wrong = await world.quiet();
  // Every runtime sends it after an ADD that failed.
  const ended = await world.call("DEL", id, mode, { pod });
  if (ended.exit !== 0) world.complain(`DEL of ${id}`, ended);
  await world.forget(id);
  const wrongAfter = await world.quiet();
  if (hostEnd !== undefined) world.ownLinks.delete(` ${hostEnd}`);
  await world.removeSandbox(pod);
  return [...wrong, ...wrongAfter, ...(await world.quiet())];
}

/** @returns the name of its other end, where that is on the host */
async function makeForeign(world: RestlessWorld, pod: Pod): Promise<string | undefined> {
  const own = (...names: readonly string[]) => {
    for (const name of names) world.ownLinks.add(name);
  };
  own(`${pod.name} eth0`);
  switch (world.oneOf("bridge", "inside", "host")) {
    case "bridge":
      await world.node.podIp(pod, "link", "add", "eth0", "type", "bridge");
      return undefined;
    case "inside":
      own(`${pod.name} peer0`);
      await world.node.podIp(pod, "link", "add", "eth0", "type", "veth", "peer", "name", "peer0");
      return undefined;
    default: {
      const name = `other-${world.newId()}`;
      own(` ${name}`);
      await world.node.podIp(pod, "link", "add", "eth0", "type", "veth", "peer", "name", "other");
      await world.node.podIp(pod, "link", "set", "other", "netns", world.node.name, "name", name);
      return name;
    }
  }
}

async function secondNetwork(world: RestlessWorld): Promise<readonly string[]> {
  const one = await world.start({ mode: world.oneOf("require", "off") });
  if (one === undefined) return world.quiet();
  const { id, mode, pod } = one;
  const second = { pod, network: world.oneOf(NETWORK, "net2"), ifname: "net1" };
  const added = await world.call("ADD", id, mode, second);
  if (added.exit === 0 || !added.stdout.includes("interface-exists")) {
    world.complain(`the second interface of ${id}, which must be refused as interface-exists,`, added);
  }
  const wrong = await world.quiet();
  const ended = await world.call("DEL", id, mode, second);
  if (ended.exit !== 0) world.complain(`DEL of the second interface of ${id}`, ended);
  const wrongAfter = await world.quiet();
  await world.stop(one);
  return [...wrong, ...wrongAfter, ...(await world.quiet())];
}
