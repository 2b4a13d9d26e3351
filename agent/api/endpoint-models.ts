/** Endpoints as the API shows and takes them (A§2.4). */
import { model, ref, type Static, Type, words } from "./model.ts";

const NUL_FREE = "^[^\\u0000]*$";
const MAC = "^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$";
/** `source:key=value`; the value may be missing. */
const LABEL = "^[A-Za-z0-9_.-]+:[^=\\u0000]+(=[^\\u0000]*)?$";
const text = () => Type.Optional(Type.String({ pattern: NUL_FREE, maxLength: 1024 }));

export const EndpointState = words(
  "creating",
  "waiting-for-identity",
  "not-ready",
  "ready",
  "waiting-to-regenerate",
  "regenerating",
  "restoring",
  "disconnecting",
  "disconnected",
  "invalid",
);

export const AddressPair = model("AddressPair", "One address of each family, without prefix length.", {
  ipv4: text(),
  "ipv4-expiration-uuid": text(),
  ipv6: text(),
  "ipv6-expiration-uuid": text(),
});

const AttachmentModel = model("Attachment", "What CNI adds and deletes.", {
  network: Type.String({ minLength: 1, pattern: NUL_FREE }),
  "container-id": Type.String({ minLength: 1, pattern: NUL_FREE }),
  ifname: Type.String({ minLength: 1, maxLength: 15, pattern: NUL_FREE }),
});

const Labels = Type.Array(Type.String({ pattern: LABEL, maxLength: 512 }), { maxItems: 256 });

export const EndpointChangeRequest = model("EndpointChangeRequest", "An endpoint that is to be registered, or changed.", {
  id: Type.Optional(Type.Integer({ minimum: 0 })),
  "container-id": text(),
  "container-name": text(),
  labels: Type.Optional(Labels),
  "interface-name": text(),
  "interface-index": Type.Optional(Type.Integer({ minimum: 0 })),
  state: Type.Optional(EndpointState),
  mac: Type.Optional(Type.String({ pattern: MAC })),
  "host-mac": Type.Optional(Type.String({ pattern: MAC })),
  addressing: Type.Optional(ref(AddressPair)),
  "k8s-pod-name": text(),
  "k8s-namespace": text(),
  "k8s-pod-uid": text(),
  "sync-build-endpoint": Type.Optional(Type.Boolean()),
  "datapath-configuration": Type.Optional(
    Type.Object({
      "require-arp-passthrough": Type.Optional(Type.Boolean()),
      "require-egress-prog": Type.Optional(Type.Boolean()),
      "external-ipam": Type.Optional(Type.Boolean()),
      "install-endpoint-route": Type.Optional(Type.Boolean()),
      "require-routing": Type.Optional(Type.Boolean()),
    }),
  ),
  attachment: Type.Optional(ref(AttachmentModel)),
  netns: Type.Optional(Type.Object({ path: Type.String({ pattern: NUL_FREE }), dev: text(), ino: text() })),
  "interface-alias": text(),
});
export type EndpointChangeRequest = Static<typeof EndpointChangeRequest>;

export const EndpointHealthModel = model("EndpointHealth", "How an endpoint is (A§5.9).", {
  overallHealth: Type.String(),
  bpf: Type.String(),
  policy: Type.String(),
  connected: Type.Boolean(),
});

export const EndpointStatusChange = model("EndpointStatusChange", "One entry of an endpoint's log, newest first.", {
  timestamp: Type.String({ description: "RFC 3339" }),
  code: words("OK", "Warning", "Failure", "Disabled"),
  type: words("BPF", "Policy", "Other"),
  message: Type.String(),
  state: Type.String(),
});

const RecordedAddressModel = model("EndpointAddress", "An address of an endpoint, and what proves that it is the endpoint's.", {
  address: Type.String(),
  family: words("ipv4", "ipv6"),
  grant: words("file", "block", "external"),
});

export const EndpointModel = model("Endpoint", "What the agent manages for one attachment.", {
  id: Type.Integer({ minimum: 1 }),
  spec: Type.Object({ options: Type.Record(Type.String(), Type.String()) }),
  status: Type.Object({
    state: EndpointState,
    phase: Type.String({ description: "How far the record is: creating, adding:<step>, ready, deleting:<step>" }),
    "external-identifiers": Type.Object({
      "container-id": Type.String(),
      "cni-attachment-id": Type.String(),
      "k8s-pod-name": Type.Optional(Type.String()),
      "k8s-namespace": Type.Optional(Type.String()),
      "k8s-pod-uid": Type.Optional(Type.String()),
    }),
    attachment: ref(AttachmentModel),
    networking: Type.Object({
      addressing: Type.Array(ref(AddressPair)),
      addresses: Type.Array(ref(RecordedAddressModel)),
      mac: Type.Optional(Type.String()),
      "host-mac": Type.Optional(Type.String()),
      "interface-name": Type.Optional(Type.String({ description: "Of the host end" })),
      "interface-index": Type.Optional(Type.Integer()),
      "interface-alias": Type.Optional(Type.String()),
      "container-interface-name": Type.String(),
      "link-form": words("routed", "endpoint", "attached"),
      netns: Type.String(),
    }),
    labels: Labels,
    health: ref(EndpointHealthModel),
    log: Type.Array(ref(EndpointStatusChange), { description: "The newest entry only" }),
    "created-at": Type.String(),
    "committed-at": Type.Optional(Type.String()),
  }),
});
export type EndpointModel = Static<typeof EndpointModel>;

export const EndpointConfiguration = model("EndpointConfiguration", "Options of one endpoint.", {
  options: Type.Optional(Type.Record(Type.String(), Type.String())),
});

export const LabelConfiguration = model("LabelConfiguration", "Labels that a user gives an endpoint.", {
  user: Labels,
});

export const BuildRequest = model("BuildRequest", "A build that is asked for.", {
  level: Type.Optional(Type.Integer({ minimum: 1, maximum: 4, description: "1 compares and mends; 4 redoes everything" })),
  reason: text(),
});

export const ContainerSelector = model("ContainerSelector", "All endpoints of a container.", {
  "container-id": Type.String({ minLength: 1, pattern: NUL_FREE }),
});
