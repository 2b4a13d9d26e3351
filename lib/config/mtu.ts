/** The MTU of a new link (C§1.6). */
import { messageOf, TortieError } from "../errors/errors.ts";
import { systemErrorCode, systemErrorText } from "../system/errno.ts";
import { isThere, readText } from "../system/files.ts";
import type { NetworkConfig } from "./network-config.ts";

/** Written by Felix: decimal bytes, the smallest MTU of the encapsulations in use. The path is fixed (C§1.6). */
export const MTU_FILE = "/var/lib/calico/mtu";

/**
 * `mtu` of the network configuration if it is not 0, else what the file says, else 0: no MTU is given to the kernel.
 * A damaged file is an error even where `mtu` is set, and so is a missing one with `require_mtu_file`.
 *
 * @throws TortieError `mtu-file-invalid`: "failed to read MTU file: …"
 */
export function resolveMtu(config: Pick<NetworkConfig, "mtu" | "requireMtuFile">, file: string = MTU_FILE): number {
  const fromFile = readMtuFile(file, config.requireMtuFile);
  return config.mtu !== 0 ? config.mtu : fromFile;
}

function readMtuFile(file: string, isRequired: boolean): number {
  if (!isRequired && !isThere(file)) return 0;
  let content: string;
  try {
    content = readText(file).trim();
  } catch (cause) {
    if (systemErrorCode(cause) === "ENOENT" && !isRequired) return 0;
    const reason = `open ${file}: ${systemErrorText(cause) ?? messageOf(cause)}`;
    throw new TortieError("mtu-file-invalid", `failed to read MTU file: ${reason}`, { cause });
  }
  const mtu = /^[+-]?\d+$/.test(content) ? Number(content) : Number.NaN;
  if (!Number.isSafeInteger(mtu)) {
    throw new TortieError(
      "mtu-file-invalid",
      `failed to read MTU file: ${file} holds ${JSON.stringify(content.slice(0, 60))}, not a decimal number`,
    );
  }
  return mtu;
}
