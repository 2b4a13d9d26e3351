/** Builds a node with two pods and looks at it from outside; computes every claim that it prints from a command's answer. */
import { DemoFailure, Screen } from "./demonstration/screen.ts";
import { showAddresses, showArp, showPings, showRoutes } from "./demonstration/show-kernel.ts";
import { showAgent, showBlocks, showEndpoint, showHostPort, showOutgoing, showRate } from "./demonstration/show-pods.ts";
import { showPolicy } from "./demonstration/show-policy.ts";
import { attachPods, removeEverything } from "./demonstration/tortiectl.ts";
import { World } from "./demonstration/world.ts";

const screen = new Screen(16);

const DRAWING = [
  "   pod web                       node                      pod client",
  "  ┌────────────┐   veth   ┌──────────────────────┐   veth   ┌────────────┐",
  "  │ eth0 ◀─────┼──────────┼─▶ cali…  …  cali… ◀──┼──────────┼─────▶ eth0 │",
  "  └────────────┘          │ one route to each    │          └────────────┘",
  "   its own address        │ address, no bridge   │   its own address",
  "                          └──────────┬───────────┘",
  "                                  uplink ── a host outside",
  "",
  "veth: a cable of two virtual interfaces, one end in the pod, one on the node.",
];

const NEXT = [
  "",
  "What next:",
  "  docs/tutorials/first-pod.md     the same by hand, in ten minutes",
  "  docs/how-to/install-host.md     on this host: three commands, and one to take it away",
  "  docs/index.md                   in a cluster, alone or beside Calico, and everything else",
  "  dist/bin/tortiectl doctor       what keeps pods of this host from their network",
  "  dist/bin/tortiectl --help       what you can ask and do",
];

async function demo(): Promise<void> {
  const started = performance.now();
  await using world = await World.create();
  screen.title("Tortie: a node with two pods, in private namespaces of this machine");
  for (const line of DRAWING) screen.text(line);
  await attachPods(world, screen);
  await showAddresses(world, screen);
  await showArp(world, screen);
  await showRoutes(world, screen);
  await showPings(world, screen);
  await showHostPort(world, screen);
  await showOutgoing(world, screen);
  await showRate(world, screen);
  await showEndpoint(world, screen);
  await showBlocks(world, screen);
  await removeEverything(world, screen);
  await showPolicy(screen);
  await showAgent(screen);
  screen.end(`${screen.claims} claims held, in ${((performance.now() - started) / 1000).toFixed(1)} s`, NEXT);
}

try {
  await demo();
} catch (error) {
  screen.fail(error instanceof DemoFailure ? error.message : String(error instanceof Error ? error.stack : error));
  process.exitCode = 1;
}
