/** Does ADD and DEL by the command that an operator uses. */
import { join } from "node:path";
import type { Screen } from "./screen.ts";
import { type DemoPod, readDemoStore, type World } from "./world.ts";

/** Limits the bits a second into the pod "web". */
export const WEB_RATE = 40e6;
export const HOST_PORT = 8080;

const ARGS: Readonly<Record<string, readonly string[]>> = {
  web: ["--port-mapping", `${HOST_PORT}:80/tcp`, "--bandwidth", `ingress=${WEB_RATE / 1e6}M,ingressBurst=1M`],
  client: [],
};

export async function attachPods(world: World, screen: Screen): Promise<void> {
  screen.section("Two pods are attached, each through tortie → portmap → bandwidth");
  for (const pod of [world.web, world.client]) {
    const { output, milliseconds } = await tortiectl(world, "add", pod, ["--json", ...(ARGS[pod.name] ?? [])]);
    screen.command(`tortiectl cni add 10-tortie.conflist ${pod.name} ${(ARGS[pod.name] ?? []).join(" ")}`.trimEnd());
    const result: { ips: { address: string }[] } = JSON.parse(output);
    const addresses = result.ips.map((ip) => ip.address);
    const both = addresses.some((text) => text.endsWith("/32")) && addresses.some((text) => text.endsWith("/128"));
    screen.claim(`${pod.name} has ${addresses.join(" and ")} after ${milliseconds} ms`, both && addresses.length === 2, result);
  }
}

export async function removeEverything(world: World, screen: Screen): Promise<void> {
  screen.section("Both pods are detached, and nothing is left");
  for (const pod of [world.web, world.client]) {
    const { milliseconds } = await tortiectl(world, "del", pod, []);
    screen.command(`tortiectl cni del 10-tortie.conflist ${pod.name}   # ${milliseconds} ms`);
  }
  const { links, routes } = await world.node.leftovers();
  const own = <T extends string>(list: readonly T[]) => list.filter((text) => !text.endsWith("uplink"));
  screen.claim("no link and no route of the pods is left on the node", own(links).length + own(routes).length === 0, { links, routes });
  const store = await readDemoStore(world);
  const used = store.blocks.flatMap((block) => block.allocations.filter((entry) => entry !== null));
  const left = { addresses: used.length, handles: store.handles.length, endpoints: store.endpoints.length };
  screen.claim(
    "no address, handle or endpoint is left in the datastore",
    Object.values(left).every((count) => count === 0),
    left,
  );
  const nat = await world.run(["iptables-save", "--table", "nat"]);
  screen.claim(`no rule for host port ${HOST_PORT} is left`, !nat.includes(`--dport ${HOST_PORT}`), nat);

  const before = await world.run(["nft", "list", "tables"]);
  await world.run([join(world.node.binDir, "tortiectl"), "nat", "remove"]);
  screen.command("tortiectl nat remove");
  const tables = await world.run(["nft", "list", "tables"]);
  screen.claim("the masquerading table is gone too", before.includes("tortie") && !tables.includes("tortie"), { before, tables });
}

async function tortiectl(world: World, verb: string, pod: DemoPod, options: readonly string[]) {
  const started = performance.now();
  const output = await world.run([
    join(world.node.binDir, "tortiectl"),
    ...["cni", verb, world.conflistFile, pod.sandbox.name, "--container-id", pod.name, "--cache-dir", join(world.node.dir, "cache")],
    ...["--args", `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${pod.name}`],
    ...options,
  ]);
  return { output, milliseconds: Math.round(performance.now() - started) };
}
