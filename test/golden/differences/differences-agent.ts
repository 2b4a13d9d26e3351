/** What differs on purpose when the main plugin hands its calls to an agent, beyond what differs without one. */
import type { DeliberateDifference } from "./expected-difference.ts";

/** By scenario, "suite/name". */
export const AGENT_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {};
