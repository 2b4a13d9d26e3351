/** Outcomes that several scenarios of the main plugin share, whichever store they are played on. */
import type { Expectations, Outcome } from "./expected-difference.ts";

export const ABSENT: Outcome = { absent: true };
export const PRESENT: Outcome = { present: true };
export const LOCK = "/run/calico/ipam.lock";
export const IMPOSSIBLE_NAME = "docs/project/decisions.md: a name that nothing can be stored under is refused before the lock is taken";
export const LEAVES_NOTHING = "design §8 and invariant 5: a failed ADD leaves nothing behind";

/** Nothing more in the kernel than Calico leaves there, and less of the attachment. */
export function noAttachment(call: string): Expectations {
  return { [`${call} > kernel > host > **`]: ABSENT, [`${call} > kernel > pod > **`]: ABSENT };
}

/** A DEL that fails in Calico, and has nothing to say here. */
export function succeedsSilently(call: string): Expectations {
  return { [`${call} > exit`]: { is: 0 }, [`${call} > error`]: ABSENT, [`${call} > stdout`]: { is: { text: "" } } };
}

/** The link of the pod's newer sandbox, which Calico takes away with the DEL of another container. */
export function attachmentStays(call: string): Expectations {
  return { [`${call} > kernel > host > **`]: PRESENT, [`${call} > kernel > pod > **`]: PRESENT };
}

/** Refused before IPAM: no block, no affinity, no lock. */
export function nothingClaimed(...calls: readonly string[]): Expectations {
  return Object.fromEntries(
    calls.flatMap((call) => [
      [`${call} > objects > blocks > *`, ABSENT],
      [`${call} > objects > affinities > *`, ABSENT],
      ...(call === calls[0] ? [[`${call} > files > ${LOCK}`, ABSENT] as const] : []),
    ]),
  );
}

/** Settings of the sandbox that an ADD which failed later has written: they harm nobody in a sandbox that is thrown away. */
export function sandboxSettings(...names: readonly string[]): Expectations {
  return Object.fromEntries(names.map((name) => [`* > kernel > pod > sysctls > ${name}`, { is: "0" }]));
}

/** The sandbox forwards as it did before: an ADD that was refused has not written its settings. */
export const SANDBOX_UNTOUCHED: Expectations = { "* > kernel > pod > sysctls > ipv4/ip_forward": { is: "1" } };

/** More requests than Calico's, because more is done, or asked together: call → as many at most. */
export function requests(atMost: Readonly<Record<number, number>>): Expectations {
  return Object.fromEntries(Object.entries(atMost).map(([call, limit]) => [`call ${call} > requests`, { atMost: limit }]));
}
