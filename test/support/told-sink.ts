/** A policy engine that only remembers what it was told. */
import type { PolicySink } from "../../agent/policy/sources/model.ts";
import { formatAddress } from "../../lib/addresses/address.ts";
import type { Labels, PeerPod, PolicyObject } from "../../policy/model.ts";

export class ToldSink implements PolicySink {
  readonly namespaces = new Map<string, Labels>();
  readonly policies = new Map<string, PolicyObject>();
  readonly peers = new Map<string, PeerPod>();
  needsPortsOfPeers = false;
  /** How often it was told anything. */
  tellings = 0;

  setNamespace(name: string, labels: Labels | undefined): void {
    keep(this.namespaces, name, labels);
    this.tellings++;
  }

  setPolicy(key: string, policy: PolicyObject | undefined): void {
    keep(this.policies, key, policy);
    this.tellings++;
  }

  setPeer(key: string, pod: PeerPod | undefined): void {
    keep(this.peers, key, pod);
    this.tellings++;
  }

  /** { "shop/web": ["10.1.0.5"] } */
  get addresses(): Readonly<Record<string, readonly string[]>> {
    const found = [...this.peers].map(([key, { addresses }]): [string, readonly string[]] => [key, addresses.map(formatAddress)]);
    return Object.fromEntries(found.sort(([one], [other]) => (one < other ? -1 : 1)));
  }
}

function keep<T>(map: Map<string, T>, key: string, value: T | undefined): void {
  if (value === undefined) map.delete(key);
  else map.set(key, value);
}
