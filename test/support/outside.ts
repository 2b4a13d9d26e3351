/** Another machine at the end of a node's link, which knows no way back to pods. */
import type { Node, Pod } from "./node.ts";

export interface Uplink {
  /** Name of the node's end; the other one is eth0. */
  readonly link: string;
  /** Addresses of both ends, with their lengths. */
  readonly host: readonly string[];
  readonly outside: readonly string[];
}

export async function addOutside(node: Node, { link, host, outside }: Uplink): Promise<Pod> {
  const machine = await node.addPod("outside");
  await node.ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", machine.name);
  for (const address of host) await node.ip("address", "add", address, "dev", link, ...atOnce(address));
  await node.ip("link", "set", link, "up");
  for (const address of outside) await node.podIp(machine, "address", "add", address, "dev", "eth0", ...atOnce(address));
  await node.podIp(machine, "link", "set", "eth0", "up");
  return machine;
}

/** Nobody looks for another host with an address of IPv6 first. */
function atOnce(address: string): readonly string[] {
  return address.includes(":") ? ["nodad"] : [];
}
