/** The deliberate differences: general ones first, then by scenario ("suite/name"), each with its reason and the outcome we want. */
import type { DeliberateDifference, GeneralDifference } from "./deliberate.ts";

export const GENERAL: readonly GeneralDifference[] = [];

export const DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {};
