/** Decides what a connectivity test tries in its world, from where, and to whom. Pure. */
import type { Family } from "../../lib/addresses/address.ts";
import type { Question } from "./question.ts";
import { addressOf, CHECKS, type Check, FAMILIES, type Member, memberOf, type World } from "./world.ts";

/** One question, and who tries it. */
export interface Placed {
  readonly node: string;
  readonly from: "pod" | "host";
  readonly question: Question;
}

/** What one row of the screen stands for. */
export interface Trial {
  readonly check: Check;
  readonly object: string;
  readonly node: string;
  readonly family: Family;
  /** Whom it is about; absent for what is outside. */
  readonly peer?: Member | undefined;
  readonly asked: readonly Placed[];
}

/** Who asks, what, at which port, and the question's subject, which is the peer's name where it is left out. */
type Ask = readonly ["pod" | "host", Question["kind"], number, string?];

/** Bytes of a transfer that meets a path's MTU many times. */
const BULK_BYTES = 256 * 1024;
/** Seconds that a transfer takes within the limit, and without its burst. */
const TIMED_SECONDS = 1.5;

type Places = Pick<World, "nodes" | "members" | "ports" | "outside" | "lookup" | "limit" | "lacks">;

/** @param only the checks that are wanted; all when absent */
export function planTrials(world: Places, only: readonly string[] | undefined): readonly Trial[] {
  const isWanted = (check: Check) => (only === undefined || only.includes(check)) && world.lacks[check] === undefined;
  const trials = new Trials(world);
  for (const check of CHECKS.filter(isWanted)) trials.add(check);
  return trials.made;
}

class Trials {
  readonly made: Trial[] = [];
  readonly #world: Places;
  #count = 0;

  constructor(world: Places) {
    this.#world = world;
  }

  add(check: Check): void {
    if (check === "dns") this.#lookup();
    else for (const node of this.#world.nodes) for (const family of FAMILIES) this.#addOf(check, node, family);
  }

  #addOf(check: Check, node: string, family: Family): void {
    if (check === "egress") this.#egress(node, family);
    else if (check === "bandwidth") this.#bandwidth(node, family);
    else this.#one(check, node, family, this.#peerOf(check, node), this.#asksOf(check, node, family));
  }

  /** Whom the check is about; nobody where the other node is missing. */
  #peerOf(check: Check, node: string): Member | undefined {
    const next = memberOf(this.#world, "web", this.#after(node));
    switch (check) {
      case "other-node":
        return next?.node === node ? undefined : next;
      case "path-mtu":
        return next ?? memberOf(this.#world, "web", node);
      case "policy":
        return memberOf(this.#world, "closed", node);
      case "same-node":
      case "host-to-pod":
        return memberOf(this.#world, "web", node);
      default:
        return memberOf(this.#world, "host", node);
    }
  }

  #asksOf(check: Check, node: string, family: Family): readonly Ask[] {
    const { serve, host, closed } = this.#world.ports;
    const web = memberOf(this.#world, "web", node);
    switch (check) {
      case "host-to-pod":
        return [["host", "tcp", serve]];
      case "host-port":
        return [["pod", "tcp", host, web?.name]];
      case "path-mtu":
        return [
          ["pod", "datagram-there", serve],
          ["pod", "datagram-back", serve],
          ["pod", "bulk", serve],
        ];
      case "source-check":
        return [["pod", "spoof", serve, addressOf(web, family)]];
      case "policy":
        return [
          ["pod", "tcp", serve],
          ["pod", "closed", closed],
        ];
      default:
        return [["pod", "tcp", serve]];
    }
  }

  #egress(node: string, family: Family): void {
    const target = this.#world.outside.find(({ address }) => address.includes(":") === (family === 6));
    // A pod without an address of the family reaches nothing outside by it either.
    if (target === undefined || addressOf(memberOf(this.#world, "web", node), family) === undefined) return;
    const { address: to, port } = target;
    const asked = (["pod", "host"] as const).map((from) => this.#placed(node, from, { kind: "tcp", to, port }));
    this.made.push({ check: "egress", object: `node ${node} to ${to} port ${port}`, node, family, asked });
  }

  /** Adds one row about a peer that has an address of the family. */
  #one(check: Check, node: string, family: Family, peer: Member | undefined, asks: readonly Ask[]): void {
    const to = addressOf(peer, family);
    // A packet needs an address of the family on both ends.
    if (peer === undefined || to === undefined || addressOf(memberOf(this.#world, "web", node), family) === undefined) return;
    const asked = asks.map(([from, kind, port, subject = kind === "tcp" ? peer.name : undefined]) =>
      this.#placed(node, from, { kind, to, port, bytes: kind === "bulk" ? BULK_BYTES : undefined, subject }),
    );
    this.made.push({ check, object: objectOf(node, peer, family), node, family, peer, asked });
  }

  /** A limit is the same for both families and on every node: one pod has it. */
  #bandwidth(node: string, family: Family): void {
    const { ports, limit } = this.#world;
    const limited = memberOf(this.#world, "limited", node);
    if (limited === undefined || this.made.some(({ check }) => check === "bandwidth")) return;
    const to = addressOf(limited, family);
    if (to === undefined) return;
    const bytes = Math.round((limit.bitsPerSecond / 8) * TIMED_SECONDS);
    const asked = (["rate-there", "rate-back"] as const).map((kind) => this.#placed(node, "pod", { kind, to, port: ports.serve, bytes }));
    this.made.push({ check: "bandwidth", object: `node ${node}`, node, family, peer: limited, asked });
  }

  #lookup(): void {
    const { lookup, nodes } = this.#world;
    const question = { kind: "lookup", to: lookup.server?.address ?? "", port: lookup.server?.port ?? 53, subject: lookup.name } as const;
    for (const node of nodes) {
      const asked = [this.#placed(node, "pod", question), ...(lookup.server === undefined ? [] : [this.#placed(node, "host", question)])];
      this.made.push({ check: "dns", object: `node ${node}`, node, family: question.to.includes(":") ? 6 : 4, asked });
    }
  }

  #placed(node: string, from: "pod" | "host", question: Omit<Question, "id">): Placed {
    return { node, from, question: { id: String(this.#count++), ...question } };
  }

  /** The nodes are a ring: each tries its way to the next, so that each is also reached. */
  #after(node: string): string {
    const { nodes } = this.#world;
    return nodes[(nodes.indexOf(node) + 1) % nodes.length] ?? node;
  }
}

function objectOf(node: string, peer: Member, family: Family): string {
  return `node ${node}${peer.node === node ? "" : ` to ${peer.node}`}, IPv${family}`;
}
