/** Translated addresses, by rules such as kube-proxy's: policy judges the backend, and the client behind a node's port. */
import { shared } from "../../support/fixtures.ts";
import { classes, endpoints, FAMILIES, type Family, HOST, PolicyNode, reach } from "../../support/policy-node.ts";

const A = "aaaaaaaaaaaa";
const B = "bbbbbbbbbbbb";
const VIRTUAL = { 4: "10.96.0.1", 6: "fd00:96::1" } as const;
const EMPTY = { 4: "10.96.0.2", 6: "fd00:96::2" } as const;

const world = shared(() => PolicyNode.create(3));
const places = () => {
  const [a, b, c] = world.pods;
  return { a, b, c, outside: world.outside };
};

/** Leads the Service's address, and the node's port 30080, to one pod; what comes back to its sender is masqueraded. */
async function lead(backend: string, family: Family): Promise<void> {
  const ip = family === 4 ? "ip" : "ip6";
  const to = family === 4 ? `${backend}:80` : `[${backend}]:80`;
  await world.nft(
    `table ${ip} services
     delete table ${ip} services
     table ${ip} services {
       chain prerouting { type nat hook prerouting priority dstnat;
         ${ip} daddr ${VIRTUAL[family]} tcp dport 8080 dnat to ${to}
         ${ip} daddr ${HOST[family]} tcp dport 30080 dnat to ${to}
       }
       chain postrouting { type nat hook postrouting priority srcnat;
         ct status dnat ${ip} saddr ${backend} ${ip} daddr ${backend} masquerade
         ct status dnat iifname "eth0" masquerade
       }
     }`,
  );
}

const connect = (from: { readonly prober: { ask<T>(action: string, parameters: object): Promise<T> } }, to: string, port: number) =>
  from.prober.ask<string>("tcp", { to, port });

beforeAll(async () => {
  const { a, b, c, outside } = places();
  for (const { prober } of [a, b, c, outside]) await prober.ask("serve", { protocol: "tcp", port: 80 });
  await outside.prober.ask("serve", { protocol: "tcp", port: 8080 });
  await outside.prober.ask("capture", { device: "eth0" });
});

beforeEach(() => world.ask("remove"));

describe.each(FAMILIES)("IPv%i", (family) => {
  it("N5: judges what goes to a Service by its backend", async () => {
    const { a, b, c } = places();
    await lead(b.address[family], family);
    const egress = (name: string, ports: string) =>
      world.replace({ endpoints: endpoints([a, { egress: { [name]: [ports] } }], [b, {}], [c, {}]), addresses: classes([b, B], [c, A]) });

    await egress(B, "tcp 80");
    expect([await connect(a, VIRTUAL[family], 8080), await reach(a, c, "tcp", 80, family)]).toEqual(["ok", "timeout"]);
    await egress(B, "tcp 8080");
    expect(await connect(a, VIRTUAL[family], 8080)).toBe("timeout");
    await egress(A, "tcp 80");
    expect(await connect(a, VIRTUAL[family], 8080)).toBe("timeout");
  });

  it("N6: drops what goes to a Service without backends, where egress is closed", async () => {
    const { a, outside } = places();
    await world.replace({ endpoints: endpoints([a, { egress: {} }]) });
    await outside.prober.ask("taken");

    expect(await connect(a, EMPTY[family], 8080)).toBe("timeout");
    const from = Buffer.from(family === 4 ? a.address[4].split(".").map(Number) : []).toString("hex") || "fd000060";
    expect((await outside.prober.ask<string[]>("taken")).filter((packet) => packet.includes(from))).toEqual([]);
    expect(await world.dropped()).toEqual({ "egress-denied": expect.any(Number) });
  });

  it("N7: judges what comes by a node's port by the client's address, although it is masqueraded afterwards", async () => {
    const { a, outside } = places();
    await lead(a.address[family], family);
    const block = (address: string) => ({ [`${address}/${family === 4 ? 32 : 128}`]: A });
    const ingress = (blocks: Record<string, string>) =>
      world.replace({ endpoints: endpoints([a, { ingress: { [A]: ["tcp 80"] } }]), blocks });

    await ingress(block(outside.address[family]));
    expect(await connect(outside, HOST[family], 30080)).toBe("ok");
    await ingress(block(HOST[family]));
    expect(await connect(outside, HOST[family], 30080)).toBe("timeout");
  });

  it("N8: lets a pod reach itself by a Service under default-deny, and others not", async () => {
    const { a, b } = places();
    await lead(a.address[family], family);
    await world.replace({ endpoints: endpoints([a, { ingress: {}, egress: {} }], [b, {}]), addresses: classes([a, A], [b, B]) });

    expect([await connect(a, VIRTUAL[family], 8080), await connect(b, VIRTUAL[family], 8080)]).toEqual(["ok", "timeout"]);
  });
});
