/** Kubernetes objects that Tortie reads: Calico's kinds by the codecs of the datastore, annotations by the code of an ADD. */

import { parsePrefix } from "../../lib/addresses/address.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { checkLocalPools } from "../../lib/config/local-pools.ts";
import { nearest } from "../../lib/config/unknown-keys.ts";
import { affinityCodec } from "../../lib/datastore/kubernetes/codecs/affinity-codec.ts";
import { blockCodec } from "../../lib/datastore/kubernetes/codecs/block-codec.ts";
import { clusterInformationCodec, configurationCodec, reservationCodec } from "../../lib/datastore/kubernetes/codecs/cluster-codecs.ts";
import type { Resource } from "../../lib/datastore/kubernetes/codecs/codec.ts";
import { handleCodec } from "../../lib/datastore/kubernetes/codecs/handle-codec.ts";
import { poolCodec } from "../../lib/datastore/kubernetes/codecs/pool-codec.ts";
import { type Metadata, metadataOf } from "../../lib/datastore/kubernetes/core/metadata.ts";
import { LEGACY_GROUP, V3_GROUP } from "../../lib/datastore/kubernetes/group.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { type Fields, section, text } from "../../lib/json/decode.ts";
import { parseSelector } from "../../lib/selector/parser.ts";
import { ANNOTATION_PREFIX } from "../../lib/workload/annotations/annotation.ts";
import { podRequests } from "../../lib/workload/annotations/requests.ts";
import type { FileFinding } from "./finding.ts";

type Found = Pick<FileFinding, "severity" | "message">;

const GROUPS: readonly string[] = [LEGACY_GROUP, V3_GROUP];
/** Annotations that Tortie or Calico reads or writes (C§3.1). */
const ANNOTATIONS = [
  "ipAddrs",
  "ipAddrsNoIpam",
  "ipv4pools",
  "ipv6pools",
  "ipFamilies",
  "hwAddr",
  "floatingIPs",
  "allowedSourcePrefixes",
  "podIP",
  "podIPs",
  "containerID",
];
/** Of pools, beside those that the allocator reads. */
const POOL_ONLY = ["ipipMode", "vxlanMode", "disableBGPExport", "ipip", "nat-outgoing"];

/** @returns `undefined` for a kind that Tortie does not read */
export function validateObject(object: Fields, file: string): readonly FileFinding[] | undefined {
  const kind = text(object, "kind");
  const subject = (name: string) => `${kind} ${name}`;
  const placed = (name: string, found: readonly Found[]) =>
    found.map((one) => ({ file, position: undefined, subject: subject(name), ...one }));
  let metadata: Metadata;
  try {
    metadata = metadataOf(object);
  } catch (error) {
    return placed("?", [wrong(error)]);
  }
  const apiVersion = text(object, "apiVersion");
  if (apiVersion === "v1" && (kind === "Pod" || kind === "Namespace")) return placed(metadata.name, annotationFindings(metadata, kind));
  if (!GROUPS.includes(apiVersion)) return undefined;
  return placed(metadata.name, calicoFindings(kind, { metadata, spec: section(object, "spec"), status: {} }));
}

function calicoFindings(kind: string, resource: Resource): readonly Found[] {
  try {
    switch (kind) {
      case "IPPool":
        return poolFindings(resource);
      case "IPReservation": {
        const bad = reservationCodec
          .decode(resource)
          .reservedCIDRs.filter((cidr) => parsePrefix(cidr.includes("/") ? cidr : `${cidr}/32`) === undefined);
        return bad.map((cidr) => ({ severity: "error", message: `spec.reservedCIDRs: "${cidr}" is no address and no CIDR` }));
      }
      case "IPAMConfig":
      case "IPAMConfiguration":
        return [
          ...oddity(configurationCodec.oddityOf?.(configurationCodec.decode(resource))),
          ...unknownFields(resource.spec, [...configurationCodec.members]),
        ];
      case "ClusterInformation":
        clusterInformationCodec.decode(resource);
        return [];
      case "IPAMBlock": {
        const block = blockCodec.decode(resource);
        blockCodec.verify?.(block);
        return [];
      }
      case "IPAMHandle":
        handleCodec.decode(resource);
        return [];
      case "BlockAffinity":
        affinityCodec.decode(resource);
        return [];
      default:
        return [{ severity: "warning", message: "Tortie does not read objects of this kind" }];
    }
  } catch (error) {
    return [wrong(error)];
  }
}

function poolFindings(resource: Resource): readonly Found[] {
  const pool = poolCodec.decode(resource);
  const found: Found[] = [...oddity(poolCodec.oddityOf?.(pool)), ...unknownFields(resource.spec, [...poolCodec.members, ...POOL_ONLY])];
  // The rules of `ipam.pools` are those of a pool object (I§2.7); the CIDR as it is written, because a reader must not have to mend it.
  found.push(
    ...attempt(
      () => checkLocalPools([{ ...pool, cidr: text(resource.spec, "cidr") }]),
      (message) => message.replace("ipam.pools[0]", "spec"),
    ),
  );
  for (const key of ["nodeSelector", "namespaceSelector"] as const) {
    if (pool[key] !== "")
      found.push(
        ...attempt(
          () => parseSelector(pool[key]),
          (message) => `spec.${key}: ${message}`,
        ),
      );
  }
  return found;
}

function annotationFindings(metadata: Metadata, kind: "Pod" | "Namespace"): readonly Found[] {
  const config = decodeNetworkConfig({
    ipam: { type: "tortie-ipam" },
    policy: { type: "k8s" },
    feature_control: { ip_addrs_no_ipam: true, floating_ips: true },
  });
  const pod = kind === "Pod" ? metadata : { namespace: metadata.name, name: "any", annotations: {} };
  const namespace = kind === "Namespace" ? metadata : undefined;
  const unknown = Object.keys(metadata.annotations).flatMap((key) => {
    if (!key.startsWith(ANNOTATION_PREFIX)) return [];
    return unknownFields({ [key.slice(ANNOTATION_PREFIX.length)]: "" }, ANNOTATIONS, "annotation ");
  });
  return [
    ...unknown,
    ...attempt(
      () => podRequests(pod, namespace, config, { addresses: [], mac: undefined }),
      (message) => message,
    ),
  ];
}

function unknownFields(fields: Fields, known: readonly string[], what = "spec."): readonly Found[] {
  return Object.keys(fields)
    .filter((key) => !known.includes(key))
    .map((key) => {
      const suggestion = nearest(key, known);
      const hint = suggestion === undefined ? "" : `; did you mean "${suggestion}"?`;
      return { severity: "warning", message: `${what}${key} is not known, it has no effect${hint}` };
    });
}

function attempt(work: () => unknown, worded: (message: string) => string): readonly Found[] {
  try {
    work();
    return [];
  } catch (error) {
    return [{ severity: "error", message: worded(messageOf(error)) }];
  }
}

function oddity(message: string | undefined): readonly Found[] {
  return message === undefined ? [] : [{ severity: "warning", message }];
}

function wrong(error: unknown): Found {
  return { severity: "error", message: messageOf(error) };
}
