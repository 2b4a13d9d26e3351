/** The deliberate differences: general ones here, those of one scenario in the two lists by suite. */

import { IPAM_DIFFERENCES } from "./differences-ipam.ts";
import { MAIN_DIFFERENCES } from "./differences-main.ts";
import type { DeliberateDifference, GeneralDifference } from "./expected-difference.ts";

export const HOST_LOCAL_LINES: GeneralDifference = {
  name: "host-local of Debian ends lines with CR LF",
  reason: "containernetworking-plugins 1.1.1 beside the recorder's 1.9.1; the file is host-local's own",
  suites: ["main"],
  expect: { "* > files > *": { matches: /^cid1\r\neth0$/ } },
};

export const CNI_1_1_0: GeneralDifference = {
  name: "cniVersion 1.1.0 is supported",
  reason: "design §8: all verbs of CNI 1.1.0",
  suites: ["main", "ipam-kdd"],
  expect: {
    "* > stdout > value > supportedVersions > 6": { is: "1.1.0" },
    "* > error > details": {
      matches: /^config is ".*", plugin supports \["0\.1\.0" "0\.2\.0" "0\.3\.0" "0\.3\.1" "0\.4\.0" "1\.0\.0" "1\.1\.0"\]$/,
    },
  },
};

export const LOCAL_GENERAL: readonly GeneralDifference[] = [
  CNI_1_1_0,
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
  {
    name: "the node forwards",
    reason: "no Felix runs beside the local store, so forwarding is switched on for the families of the pod (docs/project/decisions.md)",
    suites: ["main"],
    expect: {
      "* > kernel > host > sysctls > ipv4/ip_forward": { is: "1" },
      "* > kernel > host > sysctls > ipv4/conf/other0/forwarding": { is: "1" },
      "* > kernel > host > sysctls > ipv4/conf/other1/forwarding": { is: "1" },
      "* > kernel > host > sysctls > ipv6/conf/other0/forwarding": { is: "1" },
      "* > kernel > host > sysctls > ipv6/conf/other1/forwarding": { is: "1" },
    },
  },
  {
    name: "host ends filter by reverse path",
    reason:
      "no Felix runs beside the local store, so the kernel itself drops what a pod sends from foreign addresses (docs/project/decisions.md)",
    suites: ["main"],
    expect: Object.fromEntries(
      ["calif3c3d6a083e", "cali6fe68b83917", "calicid1", "enif3c3d6a083e", "sali0"].map((link) => [
        `* > kernel > host > sysctls > ipv4/conf/${link}/rp_filter`,
        { is: "1" },
      ]),
    ),
  },
  {
    name: "pods know the MAC of 169.254.1.1",
    reason:
      "no Felix runs beside the local store, and a host without a default route answers no ARP request for it (docs/project/decisions.md)",
    suites: ["main"],
    expect: Object.fromEntries(
      ["eth0", "eth1", "Eth0"].map((link) => [
        `* > kernel > * > neighbours > 169.254.1.1 dev ${link}`,
        { is: { lladdr: "ee:ee:ee:ee:ee:ee", state: ["PERMANENT"] } },
      ]),
    ),
  },
  HOST_LOCAL_LINES,
];

/** By scenario, "suite/name". */
export const LOCAL_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = { ...MAIN_DIFFERENCES, ...IPAM_DIFFERENCES };
