/** Defines where a connectivity test runs: its pods, and how they are made to try something. A world removes itself. */
import type { Family } from "../../lib/addresses/address.ts";
import type { CheckResult } from "../report.ts";
import type { ProbeReply, ProbeRequest } from "./question.ts";

/** Names what is checked, in the order of the screen. */
export const CHECKS = [
  "same-node",
  "other-node",
  "host-to-pod",
  "pod-to-host",
  "host-port",
  "egress",
  "dns",
  "path-mtu",
  "bandwidth",
  "source-check",
  "policy",
] as const;

export type Check = (typeof CHECKS)[number];

/** Somebody who answers: a pod, or a node itself. */
export interface Member {
  /** `web` has a port of its host, `limited` a bandwidth, `closed` is closed by a policy but for one port. */
  readonly role: "web" | "limited" | "closed" | "host";
  /** What it says when it is asked who it is. */
  readonly name: string;
  readonly node: string;
  readonly addresses: readonly string[];
  /** Host end of a pod's link. */
  readonly hostEnd?: string | undefined;
}

export interface Target {
  readonly address: string;
  readonly port: number;
}

export interface World extends AsyncDisposable {
  readonly nodes: readonly string[];
  readonly members: readonly Member[];
  /** `serve` is where all answer, `closed` where a policy lets nobody in, `host` that of the host which leads to the web pod. */
  readonly ports: { readonly serve: number; readonly closed: number; readonly host: number };
  /** What cannot be checked here, and why. */
  readonly lacks: Readonly<Partial<Record<Check, string>>>;
  /** Something outside of the pods' network. */
  readonly outside: readonly Target[];
  readonly lookup: { readonly server: Target | undefined; readonly name: string };
  /** In bits per second; and whether somebody has promised that it holds. */
  readonly limit: { readonly bitsPerSecond: number; readonly isPromised: boolean };
  /** Somebody has promised to enforce policies. */
  readonly isPolicyPromised: boolean;
  /** What was found while it was made: pods that did not start, what an earlier test has left. */
  readonly found: readonly CheckResult[];
  /** Has a pod of the node, or the node itself, try what is asked. @throws what keeps it from trying */
  ask(node: string, from: "pod" | "host", request: ProbeRequest): Promise<ProbeReply>;
}

export const FAMILIES: readonly Family[] = [4, 6];

/** @returns the member's address of that family, if it has one */
export function addressOf(member: Member | undefined, family: Family): string | undefined {
  return member?.addresses.find((address) => address.includes(":") === (family === 6));
}

/** @returns the member of that role on the node, if there is one */
export function memberOf({ members }: Pick<World, "members">, role: Member["role"], node: string): Member | undefined {
  return members.find((one) => one.role === role && one.node === node);
}

/** @returns the world once its pods are there @throws what keeps it from being made, after what was made is gone again */
export async function made<W extends World & { make(): Promise<void> }>(world: W): Promise<W> {
  try {
    await world.make();
    return world;
  } catch (error) {
    await world[Symbol.asyncDispose]();
    throw error;
  }
}
