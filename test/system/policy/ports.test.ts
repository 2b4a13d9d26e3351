/** N4: which ports pass: 80 and 81 of TCP, UDP and SCTP, in both families and directions, for each kind of permission. */

import { shared } from "../../support/fixtures.ts";
import type { PermissionText } from "../../support/packet-policy-text.ts";
import { ip, PROTOCOLS, sctpInit } from "../../support/packets.ts";
import { arrives, classes, endpoints, FAMILIES, type Family, PolicyNode, reach } from "../../support/policy-node.ts";

const A = "aaaaaaaaaaaa";
const PORTS = [80, 81] as const;

const world = shared(() => PolicyNode.create(2));
let sourcePort = 20_000;

beforeAll(async () => {
  const { prober } = world.pods[1];
  for (const port of PORTS) for (const protocol of ["tcp", "udp"]) await prober.ask("serve", { protocol, port });
  await prober.ask("capture", { device: "eth0" });
});

/** Sends the first packet of an association, since this kernel has no such sockets, and looks whether it arrives. */
async function reachBySctp(port: number, family: Family): Promise<string> {
  const [client, server] = world.pods;
  const ends = { from: client.address[family], to: server.address[family] };
  const packet = ip(ends, PROTOCOLS.sctp, sctpInit(++sourcePort, port));
  return (await arrives(client, server, packet, ends.to)) ? "ok" : "timeout";
}

/** What passes, such as "tcp 80". */
async function passing(family: Family): Promise<string[]> {
  const [client, server] = world.pods;
  const found: string[] = [];
  const asked = PORTS.flatMap((port) =>
    (["tcp", "udp"] as const).map(async (protocol) => {
      if ((await reach(client, server, protocol, port, family)) === "ok") found.push(`${protocol} ${port}`);
    }),
  );
  await Promise.all(asked);
  for (const port of PORTS) if ((await reachBySctp(port, family)) === "ok") found.push(`sctp ${port}`);
  return found.sort();
}

const EVERYTHING = ["sctp 80", "sctp 81", "tcp 80", "tcp 81", "udp 80", "udp 81"];

const KINDS: readonly (readonly [what: string, permission: PermissionText | undefined, passes: readonly string[]])[] = [
  ["no permission", undefined, []],
  ["everything", "all", EVERYTHING],
  ["one port of each protocol", ["tcp 80", "udp 81", "sctp 80"], ["sctp 80", "tcp 80", "udp 81"]],
  ["intervals with both ports, of one protocol", ["udp 80-81"], ["udp 80", "udp 81"]],
  ["intervals that end and begin between the ports", ["tcp 1-80", "udp 81-65535", "sctp 81-90"], ["sctp 81", "tcp 80", "udp 81"]],
  ["all ports of one protocol", ["sctp 0-65535"], ["sctp 80", "sctp 81"]],
  ["ports beside intervals", ["tcp 81", "tcp 1000-2000", "udp 79", "udp 80"], ["tcp 81", "udp 80"]],
];

describe.each(FAMILIES)("N4: IPv%i", (family) => {
  describe.each(["ingress", "egress"] as const)("%s", (direction) => {
    it.each(KINDS)("%s: exactly what it says", async (_, permission, passes) => {
      const [client, server] = world.pods;
      const permissions = permission === undefined ? {} : { [A]: permission };
      const [judged, other] = direction === "ingress" ? [server, client] : [client, server];
      await world.replace({ endpoints: endpoints([judged, { [direction]: permissions }], [other, {}]), addresses: classes([other, A]) });

      expect(await passing(family)).toEqual(passes);
    });
  });
});

it("lets everything else pass too where all is allowed, and nothing where ports are", async () => {
  const [client, server] = world.pods;
  const gre = () => {
    const ends = { from: client.address[4], to: server.address[4] };
    const packet = ip(ends, 47, Buffer.from([0, 0, 8, 0, 1, 2, 3, ++sourcePort & 0xff]));
    return arrives(client, server, packet, ends.to);
  };
  const ping = async () => (await world.node.run(["/bin/ping", "-c1", "-W1", server.address[4]], {}, client.pod)).exit === 0;
  const addresses = classes([client, A]);

  await world.replace({ endpoints: endpoints([server, { ingress: { [A]: "all" } }], [client, {}]), addresses });
  expect([await gre(), await ping()]).toEqual([true, true]);
  await world.replace({
    endpoints: endpoints([server, { ingress: { [A]: ["tcp 0-65535", "udp 0-65535", "sctp 0-65535"] } }], [client, {}]),
    addresses,
  });
  expect([await gre(), await ping()]).toEqual([false, false]);
});
