/** What differs on purpose when the recordings are played against a real API server: general differences, and the lists by suite. */

import { CNI_1_1_0, HOST_LOCAL_LINES } from "./differences.ts";
import { KUBERNETES_IPAM_DIFFERENCES } from "./differences-kubernetes-ipam.ts";
import { KUBERNETES_MAIN_DIFFERENCES } from "./differences-kubernetes-main.ts";
import type { DeliberateDifference, GeneralDifference } from "./expected-difference.ts";

export const KUBERNETES_GENERAL: readonly GeneralDifference[] = [
  CNI_1_1_0,
  {
    name: "no copy of the metadata in an annotation",
    reason: "readers work without it (I§2.1)",
    suites: ["ipam-kdd"],
    expect: Object.fromEntries(
      ["blocks", "affinities", "handles"].map((kind) => [
        `* > objects > ${kind} > * > wire > annotations > projectcalico.org/metadata`,
        { absent: true },
      ]),
    ),
  },
  {
    name: "DEL writes nothing to pods that it does not serve",
    reason: "design §8: ownership by container id first",
    suites: ["main"],
    expect: Object.fromEntries(
      ["podIP", "podIPs"].map((key) => [`* > objects > pods > * > cni.projectcalico.org/${key}`, { absent: true, recorded: "" }]),
    ),
  },
  {
    name: "a new block costs up to three lists more",
    reason:
      "docs/project/decisions.md: before a block is made, others that it would overlap with, and affinities without labels, are looked for",
    suites: ["ipam-kdd"],
    expect: {
      "* > requests": {
        besides: /^LIST \S*\/(ipamblocks|blockaffinities)\?(labelSelector=!projectcalico\.org%2Faffinity-type&)?limit=500 200$/,
      },
    },
  },
  HOST_LOCAL_LINES,
];

/** By scenario, "suite/name". */
export const KUBERNETES_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {
  ...KUBERNETES_MAIN_DIFFERENCES,
  ...KUBERNETES_IPAM_DIFFERENCES,
};
