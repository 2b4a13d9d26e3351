/** A cluster of a few pods, one of which is this node's: what policies say of it is asked of the filter's state and of the judge, who must agree. */
import type { Direction, PacketPolicy } from "../../../dataplane/packet-policy.ts";
import { PolicyEngine } from "../../../policy/engine.ts";
import type { Enforcement, NamedPort, SideJudgement } from "../../../policy/model.ts";
import { address } from "../addresses.ts";
import { flowOf, policyObject } from "./engine-input.ts";
import { filterVerdict } from "./packet-judge.ts";

const WEB = "10.0.0.1";

/** Everybody who may talk to shop/web, by the names that tests use. */
export const OTHERS = {
  "shop/api": "10.0.1.2",
  "shop/job": "10.0.1.3",
  "db/store": "10.0.2.4",
  "db/api": "fd00::5",
  node: "10.9.9.9",
  world: "203.0.113.7",
  world6: "2001:db8::7",
} as const;

export type Other = keyof typeof OTHERS;

interface Peer {
  readonly labels: Readonly<Record<string, string>>;
  readonly ports?: readonly NamedPort[];
}

const PEERS: Readonly<Record<string, Peer>> = {
  "shop/api": { labels: { app: "api", tier: "front" }, ports: [{ name: "grpc", protocol: "TCP", port: 7000 }] },
  "shop/job": { labels: { app: "job" } },
  "db/store": { labels: { app: "store", tier: "back" }, ports: [{ name: "grpc", protocol: "TCP", port: 9000 }] },
  "db/api": { labels: { app: "api" }, ports: [{ name: "grpc", protocol: "UDP", port: 7000 }] },
};

const WEB_PORTS: readonly NamedPort[] = [
  { name: "http", protocol: "TCP", port: 8080 },
  { name: "http", protocol: "UDP", port: 8081 },
  { name: "admin", protocol: "TCP", port: 9090 },
];

export class SmallCluster {
  readonly engine: PolicyEngine;
  #policies = 0;

  constructor(enforcement: Enforcement = "default") {
    this.engine = new PolicyEngine({ enforcement });
    this.engine.setNamespace("shop", { team: "red" });
    this.engine.setNamespace("db", { team: "blue", env: "prod" });
    for (const [key, { labels, ports = [] }] of Object.entries(PEERS)) {
      const [namespace = "", name = ""] = key.split("/");
      this.engine.setPeer(key, { namespace, name, labels, addresses: [address(OTHERS[key as Other])], ports });
    }
    this.setWeb({ app: "web" });
  }

  setWeb(labels: Readonly<Record<string, string>>): this {
    const pod = { namespace: "shop", name: "web", labels, ports: WEB_PORTS };
    this.engine.setEndpoint("caliweb", { addresses: [address(WEB)], pod });
    return this;
  }

  /** Adds a policy of namespace shop. */
  with(spec: Readonly<Record<string, unknown>>, name = `policy-${this.#policies++}`, namespace = "shop"): this {
    this.engine.setPolicy(`${namespace}/${name}`, policyObject(namespace, name, spec));
    return this;
  }

  /** What the filter has been told so far. */
  get state(): PacketPolicy {
    this.engine.take();
    return this.engine.state;
  }

  /** @param port `80/TCP`, or `ICMP` */
  side(direction: Direction, other: Other | "itself", port: string): SideJudgement {
    const at = other === "itself" ? WEB : OTHERS[other];
    const [number = "", protocol = ""] = port.split("/");
    const raw = isProtocol(protocol) ? { protocol, port: Number(number) } : { protocol: "ICMP" as const, port: undefined };
    const flow = flowOf(direction === "ingress" ? { source: at, destination: WEB, ...raw } : { source: WEB, destination: at, ...raw });
    const filtered = filterVerdict(this.state, "caliweb", direction, address(at), flow.protocol, flow.port);
    const judged = this.engine.judge(flow)[direction];
    if (judged?.verdict !== filtered) throw new Error(`${direction} ${other} ${port}: judge ${judged?.verdict}, filter ${filtered}`);
    return judged;
  }

  allows(direction: Direction, other: Other | "itself", port = "80/TCP"): boolean {
    return this.side(direction, other, port).verdict === "allow";
  }

  /** Everybody whom shop/web hears (ingress) or reaches (egress) at a port. */
  allowed(direction: Direction, port = "80/TCP"): readonly string[] {
    return (Object.keys(OTHERS) as Other[]).filter((other) => this.allows(direction, other, port));
  }

  /** The ports of a list that shop/web is heard at by, or reaches of, somebody. */
  ports(direction: Direction, other: Other, ...ports: readonly string[]): readonly string[] {
    return ports.filter((port) => this.allows(direction, other, port));
  }
}

export const EVERYBODY = Object.keys(OTHERS);

function isProtocol(text: string): text is "TCP" | "UDP" | "SCTP" {
  return text === "TCP" || text === "UDP" || text === "SCTP";
}
