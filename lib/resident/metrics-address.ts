/** `--metrics-address`: where the figures are served to others. */

import { messageOf } from "../errors/errors.ts";
import { type HealthServerOptions, keepHealthServed, type PortListener } from "./health-server.ts";

/** For the table of options: an IPv4 address, or an IPv6 address in brackets, and a port. */
export const METRICS_ADDRESS_OPTION = {
  group: "Process",
  type: "string",
  pattern: "^(\\d{1,3}(\\.\\d{1,3}){3}|\\[[0-9a-fA-F:.]+\\]):\\d{1,5}$",
  description:
    "Address and port of /metrics for a Prometheus elsewhere, for instance 0.0.0.0:9881 or [::]:9881: figures alone, without TLS, for " +
    "whoever reaches it; default: none, and /metrics is on the health port",
} as const;

/** What the finding and the log are about. */
interface Told {
  /** `undefined`: it is served. */
  finding(text: string | undefined): void;
  info(message: string, fields: Readonly<Record<string, unknown>>): void;
  error(message: string): void;
}

/** Serves the figures there, as soon as the address is there and the port free. @param address as the option has it; `undefined`: nothing is served */
export async function serveMetrics(
  address: string | undefined,
  metrics: HealthServerOptions["metrics"],
  told: Told,
): Promise<AsyncDisposable | undefined> {
  if (address === undefined) return undefined;
  const colon = address.lastIndexOf(":");
  const [host, port] = [address.slice(0, colon).replaceAll(/[[\]]/g, ""), Number(address.slice(colon + 1))];
  const listener: PortListener = {
    onServed(opened) {
      told.finding(undefined);
      told.info("figures are served", { address: host, port: opened });
    },
    onTaken(error) {
      const finding = `${address} for /metrics cannot be opened, and is tried again: ${messageOf(error)}`;
      told.finding(finding);
      told.error(finding);
    },
  };
  return keepHealthServed({ host, port, metrics }, listener);
}
