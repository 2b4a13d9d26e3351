/** Shows real traffic: through the host port, to the outside, and against the rate limit. */
import type { Pod } from "../../test/support/node.ts";
import type { Screen } from "./screen.ts";
import { addressesOf } from "./show-kernel.ts";
import { HOST_PORT, WEB_RATE } from "./tortiectl.ts";
import { NODE4, NODE6, OUTSIDE4, OUTSIDE6, type World } from "./world.ts";

const PAGE = "Hello from the pod web.";
const BIG_FILE_BYTES = 8e6;

export async function showHostPort(world: World, screen: Screen): Promise<void> {
  screen.section(`A page of web through port ${HOST_PORT} of the node`);
  await world.serve(world.web.sandbox, 80, { "index.html": `${PAGE}\n`, big: "x".repeat(BIG_FILE_BYTES) });
  const url = `http://${NODE4}:${HOST_PORT}/`;
  for (const [title, where] of [
    ["a host outside", world.outside],
    ["the node itself", undefined],
  ] as const) {
    const page = await curl(world, url, where);
    screen.command(`curl ${url}   # from ${title}`);
    screen.claim(`${title} gets "${page.trim()}"`, page.trim() === PAGE, page);
  }
}

export async function showOutgoing(world: World, screen: Screen): Promise<void> {
  screen.section("The pods reach the outside, which has no route back to them: the node's own address is seen there");
  const script = '#!/bin/sh\nprintf "Content-type: text/plain\\r\\n\\r\\n%s\\n" "$REMOTE_ADDR"\n';
  await world.serve(world.outside, 80, { "cgi-bin/whoami": script });
  for (const [server, node] of [
    [OUTSIDE4, NODE4],
    [`[${OUTSIDE6}]`, NODE6],
  ] as const) {
    const url = `http://${server}/cgi-bin/whoami`;
    const seen = (await curl(world, url, world.client.sandbox))
      .trim()
      .replace(/^\[|\]$/g, "")
      .replace(/^::ffff:/, "");
    screen.command(`ip netns exec client curl ${url}`);
    screen.claim(`the outside answers, and saw ${seen}, the node`, seen === node, seen);
  }
}

export async function showRate(world: World, screen: Screen): Promise<void> {
  const wanted = WEB_RATE / 1e6;
  screen.section(`web may receive ${wanted} Mbit/s, client has no limit`);
  await world.serve(world.client.sandbox, 80, { big: "x".repeat(BIG_FILE_BYTES) });
  const limited = await rateOf(world, world.client.sandbox, world.web.sandbox);
  const free = await rateOf(world, world.web.sandbox, world.client.sandbox);
  const longest = 40;
  for (const [title, rate] of [
    ["client → web", limited],
    ["web → client", free],
  ] as const) {
    const bar = "█".repeat(Math.max(1, Math.min(longest, Math.round((rate / Math.max(limited, free)) * longest))));
    screen.text(`${title}  ${screen.colors.cyan(bar)} ${rate.toFixed(rate < 100 ? 1 : 0)} Mbit/s`);
  }
  // Allows for the first megabit, which is the burst, and some percent for headers.
  screen.claim(`${limited.toFixed(1)} Mbit/s into web: its limit of ${wanted} holds`, limited > wanted * 0.8 && limited < wanted * 1.1, {
    limited,
  });
  screen.claim(`${Math.round(free / wanted)} times as much the other way`, free > wanted * 2, { free });
}

/** Measures megabits of payload a second in one transfer of the big file. */
async function rateOf(world: World, server: Pod, receiver: Pod): Promise<number> {
  const [prefix = ""] = await addressesOf(world, server, "eth0");
  const url = `http://${prefix.split("/")[0]}/big`;
  const speed = await world.run([...CURL, "--output", "/dev/null", "--write-out", "%{speed_download}", url], receiver);
  return (Number(speed) * 8) / 1e6;
}

const CURL = ["curl", "--silent", "--show-error", "--fail", "--max-time", "10"];

async function curl(world: World, url: string, where: Pod | undefined): Promise<string> {
  return world.run([...CURL, url], where);
}
