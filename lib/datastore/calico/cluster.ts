/** The small objects: reservations (I§2.8), the IPAM configuration (I§2.6), and whether the cluster is ready. */
import { field, flag, has, isBoolean, number, type Readers, readAll, text, textList } from "../../json/decode.ts";
import type { ClusterInformation, IPReservation, IpamConfiguration } from "../resources.ts";
import { type Codec, named, nameOfObject, type Spec } from "./codec.ts";
import { LEGACY_GROUP } from "./group.ts";

export const reservationCodec: Codec<string, IPReservation> = {
  ...named("IPReservation", "ipreservations"),
  members: new Set(["reservedCIDRs"]),
  nameOf: nameOfObject,
  decode: ({ metadata, spec }) => ({ name: metadata.name, reservedCIDRs: textList(spec, "reservedCIDRs") }),
  encode: ({ reservedCIDRs }) => ({ reservedCIDRs }),
};

const CONFIGURATION: Readers<IpamConfiguration> = {
  strictAffinity: flag,
  autoAllocateBlocks: flag,
  maxBlocksPerHost: number,
  kubeVirtVMAddressPersistence: (spec, name) => text(spec, name) || "Enabled",
  ipCooldownSeconds: number,
};

export const configurationCodec: Codec<"default", IpamConfiguration> = {
  title: "IPAMConfig",
  members: new Set(Object.keys(CONFIGURATION)),
  kind: (group) => (group === LEGACY_GROUP ? "IPAMConfig" : "IPAMConfiguration"),
  plural: (group) => (group === LEGACY_GROUP ? "ipamconfigs" : "ipamconfigurations"),
  nameOf: nameOfObject,
  decode: ({ spec }) => readAll(CONFIGURATION, spec),
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
