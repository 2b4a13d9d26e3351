/** What differs on purpose in scenarios of the IPAM plugin on a real API server, with the outcome we want. */
import type { DeliberateDifference } from "./deliberate.ts";

/** By scenario, "suite/name". */
export const KUBERNETES_IPAM_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {};
