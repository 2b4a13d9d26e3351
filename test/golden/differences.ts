/** The deliberate differences: general ones here, those of one scenario in the two lists by suite. */
import type { DeliberateDifference, GeneralDifference } from "./deliberate.ts";
import { IPAM_DIFFERENCES } from "./differences-ipam.ts";
import { MAIN_DIFFERENCES } from "./differences-main.ts";

export const GENERAL: readonly GeneralDifference[] = [
  {
    name: "cniVersion 1.1.0 is supported",
    reason: "design §8: all verbs of CNI 1.1.0",
    suites: ["main", "ipam-kdd"],
    expect: {
      "* > stdout > value > supportedVersions > 6": { is: "1.1.0" },
      "* > error > details": {
        matches: /^config is ".*", plugin supports \["0\.1\.0" "0\.2\.0" "0\.3\.0" "0\.3\.1" "0\.4\.0" "1\.0\.0" "1\.1\.0"\]$/,
      },
    },
  },
  {
    name: "no marker of the label upgrade",
    reason: "the local store has no labels that could be missing (I§1.8)",
    suites: ["ipam-kdd", "ipam-etcd"],
    expect: {
      "* > files > /var/run/calico/cni": { absent: true },
      "* > files > /var/run/calico/cni/ipam_upgraded": { absent: true },
      "* > files > /run/calico/cni/ipam_upgraded": { absent: true },
    },
  },
];

/** By scenario, "suite/name". */
export const DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = { ...MAIN_DIFFERENCES, ...IPAM_DIFFERENCES };
