/**
 * Defines what the page and its server (cmd/tortiectl/ui/) say to each other. The server answers a question by running the command of
 * `tortiectl` that answers it, so the page cannot show anything that a command does not say.
 */
import type { EndpointModel } from "../agent/api/endpoint-schema.ts";
import type { StatusResponse } from "../agent/api/node.ts";
import type { NodePolicy, PolicyDrops, PolicyExplanation } from "../agent/api/policy-schema.ts";
import type { Explanation } from "../doctor/explain/explanation.ts";
import type { Report } from "../doctor/report.ts";

/** Is what went wrong, as `--json` tells errors; a word or a next step that is not known is null. */
export interface Fault {
  readonly word: string | null;
  readonly message: string;
  readonly next: string | null;
}

export interface Answer<T> {
  /** Is the command line that gives the same answer. */
  readonly command: string;
  /** Is its exit status. */
  readonly status: number;
  /** Has what it wrote on standard error. */
  readonly notes: readonly string[];
  readonly answer: T | { readonly error: Fault };
}

/** What an address is, one letter each: used, borrowed, cooling, reserved, free. */
export const SIGNS = { u: "used", b: "borrowed", c: "cooling", r: "reserved", ".": "free" } as const;
export type Sign = keyof typeof SIGNS;
export type Standing = (typeof SIGNS)[Sign];
/** Numbers of IPv6 pools need more digits than a number has. */
export type Shares = Readonly<Record<Standing, number | bigint>>;

export interface BlockDocument extends Shares {
  readonly cidr: string;
  readonly owner: string | null;
  readonly capacity: number | bigint;
  /** Has a `Sign` for each address, in order. */
  readonly map: string;
}

export interface PoolDocument extends Shares {
  readonly name: string;
  readonly cidr: string;
  readonly limits: readonly string[];
  readonly capacity: number | bigint;
  readonly blocks: readonly BlockDocument[];
}

export interface PoolsDocument {
  readonly datastore: string;
  readonly pools: readonly PoolDocument[];
}

/** Has one of our routes to another node, or to nowhere, as the kernel has it. */
export interface RouteDocument {
  readonly destination: string;
  readonly kind: "direct" | "vxlan" | "blackhole";
  readonly gateway: string | null;
  readonly device: string | null;
  /** Is the address of the node to which packets in a tunnel go. */
  readonly peer: string | null;
}

export interface RoutesDocument {
  readonly routes: readonly RouteDocument[];
}

export type EndpointDocument = EndpointModel & { readonly log: EndpointModel["status"]["log"] };

/** Is a pod of a cluster, as `kubectl tortie endpoints` says it. */
export interface PodDocument {
  readonly namespace: string;
  readonly pod: string;
  readonly node: string;
  /** Is the agent's word, "attached" where no agent writes one, "waiting" where the pod has no address yet. */
  readonly state: string;
  readonly addresses: readonly string[];
  /** RFC 3339; of the pod. */
  readonly since: string;
  readonly problem?: string;
}

/** Is what `ipam show --ip` says: facts by name. */
export type AddressDocument = Readonly<Record<string, string>>;

/** Says what the page is about: this node, by its agent, or a whole cluster. */
export type Scope = "node" | "cluster";

/** Has the questions, with the names of what is asked about and the form of the answer. */
export interface Questions {
  pools: { params: Record<never, string>; answer: PoolsDocument };
  pods: { params: Record<never, string>; answer: readonly PodDocument[] };
  endpoints: { params: Record<never, string>; answer: readonly EndpointModel[] };
  status: { params: Record<never, string>; answer: StatusResponse };
  endpoint: { params: { id: string }; answer: EndpointDocument };
  address: { params: { ip: string }; answer: AddressDocument };
  explain: { params: { kind: string; name: string }; answer: Explanation };
  policies: { params: Record<never, string>; answer: NodePolicy };
  reach: { params: { from: string; to: string; port: string }; answer: PolicyExplanation };
  drops: { params: { endpoint: string }; answer: PolicyDrops };
  routes: { params: Record<never, string>; answer: RoutesDocument };
  doctor: { params: Record<never, string>; answer: Report };
}
export type QuestionName = keyof Questions;

/** Lists the questions whose answers come by themselves, as events of these names, whenever they change. */
export const LIVE = { node: ["pools", "endpoints", "status"], cluster: ["pools", "pods"] } as const satisfies Readonly<
  Record<Scope, readonly QuestionName[]>
>;
export type LiveName = (typeof LIVE)[Scope][number];

/** Is the first event of a stream. */
export interface About {
  readonly version: string;
  readonly host: string;
  readonly scope: Scope;
}
