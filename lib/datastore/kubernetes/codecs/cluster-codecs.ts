/** The small objects: reservations (I§2.8), the IPAM configuration (I§2.6), and whether the cluster is ready. */

import { type Fields, field, flag, has, isBoolean, isNumber, isText, listOf, text } from "../../../json/decode.ts";
import type { ClusterInformation, IPReservation, IpamConfiguration } from "../../resources.ts";
import { LEGACY_GROUP } from "../group.ts";
import { nameOfObject } from "../names.ts";
import { type Codec, named, type Spec } from "./codec.ts";

const isTexts = listOf(isText);

export const reservationCodec: Codec<string, IPReservation> = {
  ...named("IPReservation", "ipreservations"),
  members: new Set(["reservedCIDRs"]),
  nameOf: nameOfObject,
  decode: ({ metadata, spec }) => ({
    name: metadata.name,
    reservedCIDRs: has(spec, "reservedCIDRs") ? field(spec, "reservedCIDRs", isTexts) : [],
  }),
  encode: ({ reservedCIDRs }) => ({ reservedCIDRs }),
};

export const configurationCodec: Codec<"default", IpamConfiguration> = {
  title: "IPAMConfig",
  members: new Set(["autoAllocateBlocks", "ipCooldownSeconds", "kubeVirtVMAddressPersistence", "maxBlocksPerHost", "strictAffinity"]),
  kind: (group) => (group === LEGACY_GROUP ? "IPAMConfig" : "IPAMConfiguration"),
  plural: (group) => (group === LEGACY_GROUP ? "ipamconfigs" : "ipamconfigurations"),
  nameOf: nameOfObject,
  decode: ({ spec }) => ({
    strictAffinity: flag(spec, "strictAffinity"),
    autoAllocateBlocks: flag(spec, "autoAllocateBlocks"),
    maxBlocksPerHost: count(spec, "maxBlocksPerHost"),
    kubeVirtVMAddressPersistence: text(spec, "kubeVirtVMAddressPersistence") || "Enabled",
    ipCooldownSeconds: count(spec, "ipCooldownSeconds"),
  }),
  encode: (configuration): Spec => ({ ...configuration }),
  oddityOf: ({ kubeVirtVMAddressPersistence: word }) =>
    word === "Enabled" || word === "Disabled" ? undefined : `kubeVirtVMAddressPersistence "${word}" is not known, and counts as Enabled`,
};

export const clusterInformationCodec: Codec<"default", ClusterInformation> = {
  ...named("ClusterInformation", "clusterinformations"),
  members: new Set(["datastoreReady"]),
  nameOf: nameOfObject,
  decode: ({ spec }) => ({ datastoreReady: has(spec, "datastoreReady") ? field(spec, "datastoreReady", isBoolean) : undefined }),
  encode: ({ datastoreReady }) => ({ datastoreReady }),
};

function count(spec: Fields, name: string): number {
  return has(spec, name) ? field(spec, name, isNumber) : 0;
}
