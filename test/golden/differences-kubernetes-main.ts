/** What differs on purpose in scenarios of the main plugin on a real API server, with the outcome we want. */
import type { DeliberateDifference } from "./deliberate.ts";

/** By scenario, "suite/name". */
export const KUBERNETES_MAIN_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {};
