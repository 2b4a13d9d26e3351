/** Which IPAM configurations may be written (I§2.6): the ranges of each field, and what fields allow one another. */
import type { IpamConfiguration } from "../../../lib/datastore/resources.ts";
import { TortieError } from "../../../lib/errors/errors.ts";

/** What both API groups accept. */
const MOST_BLOCKS = 1_000_000;
const LONGEST_COOLDOWN = 1200;

/** @throws TortieError `option-invalid` naming the options and the rule */
export function checkConfiguration(configuration: IpamConfiguration): void {
  const { strictAffinity, autoAllocateBlocks, maxBlocksPerHost, ipCooldownSeconds } = configuration;
  checkRange("max-blocks-per-host", maxBlocksPerHost, MOST_BLOCKS);
  checkRange("ip-cooldown-seconds", ipCooldownSeconds, LONGEST_COOLDOWN);
  if (!strictAffinity && !autoAllocateBlocks) {
    throw new TortieError(
      "option-invalid",
      "--no-auto-allocate-blocks needs --strict-affinity: without blocks of its own a node could only borrow",
    );
  }
  if (maxBlocksPerHost > 0 && !strictAffinity) {
    throw new TortieError("option-invalid", "--max-blocks-per-host needs --strict-affinity: a node at its limit would borrow all the same");
  }
}

function checkRange(option: string, value: number, most: number): void {
  if (Number.isInteger(value) && value >= 0 && value <= most) return;
  throw new TortieError("option-invalid", `--${option} wants a whole number from 0 to ${most}`);
}
