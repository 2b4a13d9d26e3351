/** How API servers know us in their logs. */
declare const TORTIE_VERSION: string | undefined;

/** The build puts the version in (scripts/build). */
export const USER_AGENT = `tortie/${typeof TORTIE_VERSION === "string" ? TORTIE_VERSION : "0.0.0-source"}`;
