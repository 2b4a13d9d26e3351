/** Says of one packet that was dropped whose it was and which rule decided: the packet filter's words and the engine's judgement. */
import type { LoggedPacket } from "../../dataplane/nflog/message.ts";
import type { PacketHeader } from "../../dataplane/nflog/packet.ts";
import { type DropKind, type DropReason, parseLogPrefix } from "../../dataplane/nftables/policy/log-prefix.ts";
import type { Direction } from "../../dataplane/packet-policy.ts";
import { type Address, formatAddress } from "../../lib/addresses/address.ts";
import { excerpt } from "../../lib/log/format.ts";
import type { Flow, Judgement, RuleReference, SideJudgement } from "../../policy/model.ts";
import { PROTOCOL_NAMES } from "../../policy/rules.ts";

/** One end of a packet that was dropped. */
export interface DropEnd {
  readonly address: string;
  /** "namespace/name"; `undefined`: no pod that is known has the address. */
  readonly pod: string | undefined;
  /** Number of the pod's identity; `undefined` where none is known. */
  readonly identity?: number | undefined;
  /** `undefined` for a protocol without ports, and for a part of a packet. */
  readonly port: number | undefined;
}

export interface Drop {
  /** RFC 3339, with milliseconds. */
  readonly time: string;
  /** Host end of the endpoint whose policy dropped it. */
  readonly hostInterface: string;
  /** "namespace/name" of that endpoint; `undefined`: it is no pod, or is not known. */
  readonly pod: string | undefined;
  readonly direction: Direction;
  readonly reason: DropReason;
  readonly source: DropEnd;
  readonly destination: DropEnd;
  /** "TCP", "UDP", "SCTP", "ICMP", "ICMPv6", or the number. */
  readonly protocol: string;
  /** Policies that select the endpoint in this direction, "namespace/name"; empty where the reason is not `denied`. */
  readonly policies: readonly string[];
  readonly decidedBy: RuleReference | undefined;
  /** One sentence for an administrator. */
  readonly explanation: string;
}

/** What is asked about a packet's ends. */
export interface DropWitness {
  /** @returns the name of an interface of this host; `undefined`: it is gone */
  nameOf(index: number): string | undefined;
  /** @returns "namespace/name" of the pod behind a host end of this node */
  podBehind(hostInterface: string): string | undefined;
  /** @returns "namespace/name" of the pod that has the address, anywhere in the cluster */
  podAt(address: Address): string | undefined;
  judge(flow: Flow): Judgement;
  /** @param pod "namespace/name" */
  identityOf(pod: string): number | undefined;
}

/** Cut here: the sentence of a policy with thousands of rules must not fill the memory. */
const MOST_EXPLANATION = 1024;

/** Explains what is not the policies' doing. */
const NOT_POLICY: Readonly<Record<Exclude<DropReason, "denied">, string>> = {
  invalid: "connection tracking cannot tell which connection the packet belongs to, or its checksum is wrong",
  "tcp-without-syn":
    "a TCP packet without SYN begins no connection: its connection was ended when a permission went away, or the host does not know it any more",
  "endpoint-unknown": "nobody has said yet what this host end may do: it is closed until the agent has taken it in",
};

/** @returns `undefined` for a packet that another rule logged, or that cannot be read */
export function dropOf(packet: LoggedPacket, time: Date, witness: DropWitness): Drop | undefined {
  const kind = parseLogPrefix(packet.prefix);
  if (kind === undefined || packet.header === undefined) return undefined;
  const { header } = packet;
  const hostInterface = hostEnd(kind, packet, witness);
  return {
    time: time.toISOString(),
    hostInterface,
    pod: witness.podBehind(hostInterface),
    ...kind,
    source: endOf(header.source, header.sourcePort, witness),
    destination: endOf(header.destination, header.destinationPort, witness),
    protocol: PROTOCOL_NAMES.get(header.protocol) ?? String(header.protocol),
    ...(kind.reason === "denied" ? judged(kind.direction, header, witness) : { ...UNDECIDED, explanation: NOT_POLICY[kind.reason] }),
  };
}

function hostEnd({ direction }: DropKind, { inInterface, outInterface }: LoggedPacket, witness: DropWitness): string {
  const index = direction === "ingress" ? outInterface : inInterface;
  if (index === undefined) return "-";
  return witness.nameOf(index) ?? `interface ${index}, which is gone`;
}

function endOf(address: Address, port: number | undefined, witness: DropWitness): DropEnd {
  const pod = witness.podAt(address);
  return { address: formatAddress(address), pod, identity: pod === undefined ? undefined : witness.identityOf(pod), port };
}

type Decision = Pick<Drop, "policies" | "decidedBy" | "explanation">;

const UNDECIDED: Omit<Decision, "explanation"> = { policies: [], decidedBy: undefined };

function judged(direction: Direction, header: PacketHeader, witness: DropWitness): Decision {
  const { source, destination, protocol, destinationPort: port } = header;
  const side: SideJudgement | undefined = witness.judge({ source, destination, protocol, port })[direction];
  if (side === undefined) return { ...UNDECIDED, explanation: "the endpoint is not known any more" };
  const { policies, decidedBy, reason, verdict } = side;
  const explanation = verdict === "deny" ? reason : `the policies have changed since, and allow it now: ${reason}`;
  return { policies, decidedBy, explanation: excerpt(explanation, MOST_EXPLANATION) };
}
