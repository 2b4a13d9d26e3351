/** `tortiectl ipam …`: one function a subcommand. */
import { reporting } from "../reporting.ts";
import type { Terminal } from "../terminal.ts";
import { checkStore } from "./check.ts";
import { configureStore } from "./configure.ts";
import type { CheckOptions, ConfigureOptions, ReleaseOptions, ShowOptions } from "./options.ts";
import { releaseAddresses } from "./release.ts";
import { showPools } from "./show.ts";
import { showAddress } from "./show-address.ts";

/** @returns exit status */
export function show(options: ShowOptions, terminal: Terminal): Promise<number> {
  const { ip } = options;
  return reporting(terminal, () => (ip === undefined ? showPools(options, terminal) : showAddress(ip, options, terminal)));
}

export function check(options: CheckOptions, terminal: Terminal): Promise<number> {
  return reporting(terminal, () => checkStore(options, terminal));
}

export function release(options: ReleaseOptions, terminal: Terminal): Promise<number> {
  return reporting(terminal, () => releaseAddresses(options, terminal));
}

export function configure(options: ConfigureOptions, terminal: Terminal): Promise<number> {
  return reporting(terminal, () => configureStore(options, terminal));
}
