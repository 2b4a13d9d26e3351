/** What the agent is told, and what no single option can say. */
import type { Environment } from "../../lib/cni/environment.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { type Configurable, checkOption as checkOne, resolveOptions as resolve } from "../../lib/resident/options.ts";
import { type AgentOptions, OPTION_TABLE } from "./option-table.ts";

export const AGENT: Configurable<typeof OPTION_TABLE> = { program: "tortie-node", table: OPTION_TABLE };

/**
 * @param flags as the command line had them, without those that it did not name
 * @param file what `--config` or TORTIE_CONFIG names
 * @throws TortieError `option-invalid`
 */
export function resolveOptions(flags: Readonly<Record<string, unknown>>, env: Environment, file: string | undefined): AgentOptions {
  const options = resolve(AGENT, flags, env, file);
  if (options["enable-ipv4"] || options["enable-ipv6"]) return options;
  throw new TortieError("option-invalid", "Either IPv4 or IPv6 addressing must be enabled");
}

/** @throws TortieError `option-invalid` */
export function checkOption(name: string, value: string): void {
  checkOne(AGENT, name, value);
}
