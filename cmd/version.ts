/** Version of this build; `scripts/build` puts in the one of package.json. */
declare const TORTIE_VERSION: string | undefined;

export const VERSION: string = typeof TORTIE_VERSION === "string" ? TORTIE_VERSION : "0.0.0-source";
