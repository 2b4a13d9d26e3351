/** What differs on purpose in scenarios of the main plugin, with the outcome we want. */
import type { DeliberateDifference } from "./deliberate.ts";

export const MAIN_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {};
