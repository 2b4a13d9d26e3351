/** Describes endpoints as the API shows and takes them (A§2.3, A§2.4, A§2.7). */
import { EndpointIdentity } from "./identity.ts";
import { model, type Operations, ref, type Static, Type, words } from "./operation.ts";

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
export type EndpointHealth = Static<typeof EndpointHealthModel>;

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
    identity: Type.Optional(ref(EndpointIdentity)),
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

/** A name of A§2.2. */
const ID = Type.Object({
  id: Type.String({ minLength: 1, description: "[prefix:]value; prefixes: local, container-id, attachment, pod-name, ipv4, ipv6" }),
});
const ERRORS = Type.Integer({ description: "Number of errors met; what is left is repeated by the agent" });

export const ENDPOINT_OPERATIONS = {
  listEndpoints: {
    method: "GET",
    path: "/endpoint",
    summary: "All endpoints, or those that have every label and the state",
    query: Type.Object({
      label: Type.Optional(Type.Union([Type.Array(Type.String()), Type.String()])),
      state: Type.Optional(EndpointState),
    }),
    answers: { 200: Type.Array(ref(EndpointModel)) },
  },
  getEndpoint: { method: "GET", path: "/endpoint/{id}", summary: "One endpoint", params: ID, answers: { 200: ref(EndpointModel) } },
  putEndpoint: {
    method: "PUT",
    path: "/endpoint/{id}",
    summary: "Registers an endpoint over an interface that somebody else made; idempotent by attachment",
    params: ID,
    body: ref(EndpointChangeRequest),
    answers: { 200: ref(EndpointModel), 201: ref(EndpointModel) },
  },
  patchEndpoint: {
    method: "PATCH",
    path: "/endpoint/{id}",
    summary: "Changes interface, MACs or labels of an endpoint",
    params: ID,
    body: ref(EndpointChangeRequest),
    answers: { 200: ref(EndpointModel) },
  },
  deleteEndpoint: {
    method: "DELETE",
    path: "/endpoint/{id}",
    summary: "Removes an endpoint with everything it holds",
    params: ID,
    answers: { 200: null, 206: ERRORS },
  },
  deleteEndpointsOf: {
    method: "DELETE",
    path: "/endpoint",
    summary: "Removes all endpoints of a container",
    body: ref(ContainerSelector),
    answers: { 200: null, 206: ERRORS },
  },
  getEndpointConfig: {
    method: "GET",
    path: "/endpoint/{id}/config",
    summary: "Options of an endpoint",
    params: ID,
    answers: { 200: ref(EndpointConfiguration) },
  },
  patchEndpointConfig: {
    method: "PATCH",
    path: "/endpoint/{id}/config",
    summary: "Has an endpoint rebuilt; there is no option to set yet, and one that is given is refused",
    params: ID,
    body: ref(EndpointConfiguration),
    answers: { 200: ref(EndpointConfiguration) },
  },
  getEndpointLabels: {
    method: "GET",
    path: "/endpoint/{id}/labels",
    summary: "Labels of an endpoint",
    params: ID,
    answers: { 200: ref(LabelConfiguration) },
  },
  patchEndpointLabels: {
    method: "PATCH",
    path: "/endpoint/{id}/labels",
    summary: "Sets the labels of an endpoint",
    params: ID,
    body: ref(LabelConfiguration),
    answers: { 200: ref(LabelConfiguration) },
  },
  getEndpointLog: {
    method: "GET",
    path: "/endpoint/{id}/log",
    summary: "What happened to an endpoint, newest first",
    params: ID,
    answers: { 200: Type.Array(ref(EndpointStatusChange)) },
  },
  getEndpointHealthz: {
    method: "GET",
    path: "/endpoint/{id}/healthz",
    summary: "How an endpoint is",
    params: ID,
    answers: { 200: ref(EndpointHealthModel) },
  },
  buildEndpoint: {
    method: "POST",
    path: "/endpoint/{id}/build",
    summary: "Has an endpoint compared with its desired state and mended",
    params: ID,
    body: ref(BuildRequest),
    answers: { 202: null },
  },
} as const satisfies Operations;
