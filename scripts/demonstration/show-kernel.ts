/** Shows links, addresses, routes and neighbours as iproute2 and arping see them. */
import type { Pod } from "../../test/support/node.ts";
import type { Screen } from "./screen.ts";
import type { DemoPod, World } from "./world.ts";

/** Names the MAC of every host end (C§4.1). */
const HOST_MAC = "ee:ee:ee:ee:ee:ee";
const GATEWAY = "169.254.1.1";

/** Lists global addresses of a link with prefix lengths. */
export async function addressesOf(world: World, where: Pod | undefined, link: string): Promise<string[]> {
  const [record] = await world.ip(["addr", "show", "dev", link], where);
  const infos = (record?.addr_info ?? []) as { local: string; prefixlen: number; scope: string }[];
  return infos.filter(({ scope }) => scope !== "link").map(({ local, prefixlen }) => `${local}/${prefixlen}`);
}

export async function showAddresses(world: World, screen: Screen): Promise<void> {
  const { colors } = screen;
  screen.section("Each pod has eth0; its other end on the node is named cali…");
  for (const pod of [world.web, world.client]) {
    const [link] = await world.ip(["link", "show", "eth0"], pod.sandbox);
    const host = await hostEndOf(world, pod);
    const addresses = await addressesOf(world, pod.sandbox, "eth0");
    screen.text(`${pod.name.padEnd(7)} eth0 ${link?.address}  ${colors.cyan(addresses.join("  "))}`);
    screen.text(`${"node".padEnd(7)} ${host.name} ${host.address}  alias ${host.alias}`);
    screen.claim(
      `${pod.name}: addresses of both families, host end with MAC ${HOST_MAC}`,
      addresses.length === 2 && host.address === HOST_MAC,
      { addresses, host },
    );
  }
}

export async function showArp(world: World, screen: Screen): Promise<void> {
  screen.section(`Who is ${GATEWAY}, every pod's next hop? No interface has it: the node answers for it`);
  const command = ["arping", "-c", "1", "-w", "5", "-I", "eth0", GATEWAY];
  const output = await world.run(command, world.web.sandbox);
  screen.command(`ip netns exec web ${command.join(" ")}`);
  const answer = output.split("\n").find((line) => line.includes("reply from")) ?? output;
  screen.text(answer.trim());
  const [, mac = ""] = /\[([0-9A-Fa-f:]+)\]/.exec(answer) ?? [];
  screen.claim(`the answer comes from ${mac.toLowerCase()}, the host end of web`, mac.toLowerCase() === HOST_MAC, output);
}

export async function showRoutes(world: World, screen: Screen): Promise<void> {
  screen.section("Routes on both sides");
  for (const [title, where] of [
    ["web", world.web.sandbox],
    ["node", undefined],
  ] as const) {
    for (const family of ["-4", "-6"]) {
      const text = await world.run(["ip", family, "route", "show"], where);
      for (const line of text.split("\n").filter((each) => each !== "" && !each.includes("fe80::/64")))
        screen.text(`${title.padEnd(5)} ${line.trim()}`);
    }
  }
  const inPod = [
    ...(await world.ip(["-4", "route", "show"], world.web.sandbox)),
    ...(await world.ip(["-6", "route", "show"], world.web.sandbox)),
  ];
  const defaults = inPod.filter((route) => route.dst === "default").map((route) => String(route.gateway));
  screen.claim(`the pod sends everything to ${defaults.join(" and ")}`, defaults.length === 2 && defaults[0] === GATEWAY, inPod);
  for (const pod of [world.web, world.client]) {
    const { name } = await hostEndOf(world, pod);
    const onNode = [...(await world.ip(["-4", "route", "show", "dev", name])), ...(await world.ip(["-6", "route", "show", "dev", name]))];
    const destinations = onNode.map((route) => String(route.dst)).filter((dst) => dst !== "fe80::/64");
    const expected = (await addressesOf(world, pod.sandbox, "eth0")).map((prefix) => prefix.split("/")[0]);
    screen.claim(`the node has one route to each address of ${pod.name}, by ${name}`, destinations.join() === expected.join(), onNode);
  }
}

export async function showPings(world: World, screen: Screen): Promise<void> {
  screen.section("The pods reach each other in both families");
  for (const prefix of await addressesOf(world, world.web.sandbox, "eth0")) {
    const address = prefix.split("/")[0] ?? "";
    const command = ["ping", "-c", "3", "-i", "0.2", "-W", "2", address];
    screen.command(`ip netns exec client ${command.join(" ")}`);
    const { stdout, stderr } = await world.attempt(command, world.client.sandbox);
    const [, average = "?"] = /= [\d.]+\/([\d.]+)\//.exec(stdout) ?? [];
    screen.claim(`3 of 3 answers from ${address}, ${average} ms on average`, stdout.includes("3 received"), stdout + stderr);
  }
}

/** Finds a pod's host end: the link with the index that eth0 names as its peer. */
async function hostEndOf(world: World, pod: DemoPod): Promise<{ name: string; address: string; alias: string }> {
  const [inPod] = await world.ip(["link", "show", "eth0"], pod.sandbox);
  const links = await world.ip(["link", "show"]);
  const link = links.find((each) => each.ifindex === inPod?.link_index);
  return { name: String(link?.ifname), address: String(link?.address), alias: String(link?.ifalias) };
}
