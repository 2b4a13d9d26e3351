/**
 * The lease of coordination.k8s.io that says which controller leads: what it holds, and what one controller may do about it. Written
 * in the form that client-go's leader election uses, so that `kubectl get lease` shows it as any other.
 */
import { type Fields, field, has, isNumber, section, text } from "../../lib/json/decode.ts";

export interface Lease {
  readonly resourceVersion: string;
  /** Empty: there is no leader. */
  readonly holder: string;
  readonly durationSeconds: number;
  /** As stored; never compared with a clock of this machine. */
  readonly renewTime: string;
  readonly acquireTime: string;
  readonly transitions: number;
}

export function decodeLease(object: Fields): Lease {
  const spec = section(object, "spec");
  const number = (name: string) => (has(spec, name) ? field(spec, name, isNumber) : 0);
  return {
    resourceVersion: text(section(object, "metadata"), "resourceVersion"),
    holder: text(spec, "holderIdentity"),
    durationSeconds: number("leaseDurationSeconds"),
    renewTime: text(spec, "renewTime"),
    acquireTime: text(spec, "acquireTime"),
    transitions: number("leaseTransitions"),
  };
}

type Step = "create" | "renew" | "take" | "wait";

/**
 * What to do about the lease as it was read. Clocks of two machines are never compared: a lease is over when it has been seen unchanged
 * for its whole duration on this machine's own clock.
 *
 * @param unchangedForMs how long this controller has seen the lease as it is
 */
export function nextStep(lease: Lease | undefined, identity: string, unchangedForMs: number): Step {
  if (lease === undefined) return "create";
  if (lease.holder === identity) return "renew";
  if (lease.holder === "") return "take";
  return unchangedForMs >= lease.durationSeconds * 1000 ? "take" : "wait";
}

/** Two states of a lease differ when its holder has written: other changes of the object do not count. */
export function isSameTenure(a: Lease, b: Lease): boolean {
  return a.holder === b.holder && a.renewTime === b.renewTime && a.acquireTime === b.acquireTime && a.transitions === b.transitions;
}

interface LeaseWrite {
  readonly namespace: string;
  readonly name: string;
  /** Empty gives the lease back. */
  readonly holder: string;
  readonly durationSeconds: number;
  readonly now: Date;
}

/** The whole object, to be created, or to replace `before` if the server still has it at that version. */
export function leaseObject({ namespace, name, holder, durationSeconds, now }: LeaseWrite, before: Lease | undefined): Fields {
  const isNewTenure = before === undefined || (before.holder !== holder && holder !== "");
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name, namespace, ...(before && { resourceVersion: before.resourceVersion }) },
    spec: {
      holderIdentity: holder,
      leaseDurationSeconds: durationSeconds,
      acquireTime: isNewTenure || before.acquireTime === "" ? microTime(now) : before.acquireTime,
      renewTime: microTime(now),
      leaseTransitions: before === undefined ? 0 : before.transitions + (isNewTenure ? 1 : 0),
    },
  };
}

/** RFC 3339 with six digits, the only form that MicroTime is read in. */
function microTime(date: Date): string {
  return date.toISOString().replace("Z", "000Z");
}
