/** An endpoint as the API shows it (A§2.4). */

import type { EndpointRecord } from "../../handover/record.ts";
import { isText, listOf } from "../../lib/json/decode.ts";
import type { EndpointModel } from "../api/endpoint-models.ts";
import type { Endpoint } from "../endpoints/endpoint.ts";
import { healthOf } from "../endpoints/health.ts";
import type { StatusEntry } from "../endpoints/state/status-log.ts";

const isTextList = listOf(isText);

export type ShownEndpoint = Pick<Endpoint, "id" | "record" | "shownState" | "log">;

/** @param isConnected what the kernel says of an endpoint that is being restored */
export function endpointModel(endpoint: ShownEndpoint, isConnected = false): EndpointModel {
  const { id, record } = endpoint;
  const { attachment, pod = "", netns, createdAt, committedAt } = record;
  const [namespace = "", name = ""] = pod.split("/");
  const [newest] = endpoint.log.entries();
  return {
    id,
    spec: { options: {} },
    status: {
      state: stateOf(endpoint),
      phase: record.phase,
      "external-identifiers": {
        "container-id": attachment.containerId,
        "cni-attachment-id": `${attachment.containerId}:${attachment.ifname}`,
        ...(pod === "" ? {} : { "k8s-namespace": namespace, "k8s-pod-name": name }),
        ...(record.podUID === undefined ? {} : { "k8s-pod-uid": record.podUID }),
      },
      attachment: { network: attachment.network, "container-id": attachment.containerId, ifname: attachment.ifname },
      networking: { ...networkingOf(record), "link-form": record.linkForm, netns: netns.path },
      labels: labelsOf(record),
      health: healthOf(endpoint.shownState, isConnected),
      log: newest === undefined ? [] : [statusChange(newest)],
      "created-at": createdAt,
      ...(committedAt === undefined ? {} : { "committed-at": committedAt }),
    },
  };
}

/** "none" lasts only until the record is written. */
function stateOf({ shownState }: ShownEndpoint): EndpointModel["status"]["state"] {
  return shownState === "none" ? "creating" : shownState;
}

export function statusChange({ time, code, type, message, state }: StatusEntry) {
  return { timestamp: time, code, type, message, state };
}

export function labelsOf({ labels }: Pick<EndpointRecord, "labels">): string[] {
  return isTextList(labels) ? [...labels] : [];
}

function networkingOf({ addresses, hostInterface, podInterface, podMac, hostMac }: EndpointRecord) {
  const pair = Object.fromEntries(addresses.map(({ family, address }) => [`ipv${family}`, address]));
  return {
    addressing: addresses.length === 0 ? [] : [pair],
    addresses: addresses.map(({ address, family, grant }) => ({
      address,
      family: family === 4 ? ("ipv4" as const) : ("ipv6" as const),
      grant,
    })),
    ...(podMac === undefined ? {} : { mac: podMac }),
    ...(hostMac === undefined ? {} : { "host-mac": hostMac }),
    ...(hostInterface === undefined ? {} : { "interface-name": hostInterface.name, "interface-alias": hostInterface.alias }),
    ...(hostInterface?.index === undefined ? {} : { "interface-index": hostInterface.index }),
    "container-interface-name": podInterface,
  };
}
