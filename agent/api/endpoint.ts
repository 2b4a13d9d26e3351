/** Serves endpoints: they are looked up, registered, changed, built and removed (A§2.3, A§2.7). */

import type { EndpointRecord } from "../../handover/record.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { isText, listOf } from "../../lib/json/decode.ts";
import { failureOf } from "../../lib/system/waiting.ts";
import type { Endpoint, ShownState } from "../endpoints/endpoint.ts";
import type { EndpointManager } from "../endpoints/manager.ts";
import type { StatusEntry } from "../endpoints/status.ts";
import type { NumberedLabels } from "../policy/identities/lookup.ts";
import type { ENDPOINT_OPERATIONS, EndpointHealth, EndpointModel } from "./endpoint-schema.ts";
import { endpointIdentity } from "./identity.ts";
import type { HandlerAnswer, HandlersOf } from "./operation.ts";
import type { Registration } from "./registration.ts";

const isTextList = listOf(isText);

/** Builds that a caller asks for: a change redoes what depends on it, an explicit wish everything (A§5.5). */
const LEVEL_OF_CHANGE = 3;
const LEVEL_OF_WISH = 4;

/** What the operations need of the rest of the agent. */
export interface EndpointParts {
  readonly manager: Pick<EndpointManager, "endpoints" | "all" | "named" | "get">;
  readonly registration: Pick<Registration, "register" | "change">;
  /** Removes what an ADD made, or what was registered. It is repeated when it fails. */
  readonly removal: (record: EndpointRecord) => Promise<void>;
  /** Whether the kernel says that the link is up and has its addresses. */
  readonly isConnected: (record: EndpointRecord) => Promise<boolean>;
  /** @returns `undefined` where it is not known, or the agent shows no identities */
  readonly identityOf: (record: EndpointRecord) => Promise<NumberedLabels | undefined>;
  readonly log: { error(message: string): void };
}

export function endpointHandlers(parts: EndpointParts): HandlersOf<typeof ENDPOINT_OPERATIONS> {
  const { manager, registration } = parts;
  const connected = async ({ shownState, record }: Endpoint) => shownState === "restoring" && (await parts.isConnected(record));
  const model = async (endpoint: Endpoint) => endpointModel(endpoint, await connected(endpoint), await parts.identityOf(endpoint.record));
  const removed = (errors: number): HandlerAnswer => (errors === 0 ? { status: 200 } : { status: 206, body: errors });
  return {
    async listEndpoints({ query: { label = [], state } }) {
      const wanted = typeof label === "string" ? [label] : label;
      const models = await Promise.all(manager.all().map(model));
      const found = models.filter(
        ({ status }) => wanted.every((one) => status.labels.includes(one)) && (state ?? status.state) === status.state,
      );
      return { status: 200, body: found };
    },
    getEndpoint: async ({ params }) => ({ status: 200, body: await model(manager.named(params.id)) }),
    async putEndpoint({ body }) {
      const { isNew, endpoint } = await registration.register(body);
      return { status: isNew ? 201 : 200, body: await model(endpoint) };
    },
    async patchEndpoint({ params, body }) {
      return { status: 200, body: await model(await registration.change(manager.named(params.id).id, body)) };
    },
    deleteEndpoint: async ({ params }) => removed(await remove(manager.named(params.id).id, parts)),
    async deleteEndpointsOf({ body }) {
      const container = body["container-id"];
      const ids = manager.endpoints().flatMap(({ id, record }) => (record.attachment.containerId === container ? [id] : []));
      const errors = await Promise.all(ids.map((id) => remove(id, parts)));
      return removed(errors.reduce((sum, count) => sum + count, 0));
    },
    getEndpointConfig({ params }) {
      manager.named(params.id);
      return { status: 200, body: { options: {} } };
    },
    patchEndpointConfig({ params, body }) {
      const { mending } = manager.named(params.id);
      refuseOptions(body.options);
      const isWish = body.options === undefined;
      const reason = isWish ? "endpoint was manually regenerated via API" : "endpoint was updated via API";
      mending.trigger({ level: isWish ? LEVEL_OF_WISH : LEVEL_OF_CHANGE, reason });
      return { status: 200, body: { options: {} } };
    },
    getEndpointLabels: ({ params }) => ({ status: 200, body: { user: labelsOf(manager.named(params.id).record) } }),
    async patchEndpointLabels({ params, body }) {
      const changed = await registration.change(manager.named(params.id).id, { labels: body.user });
      return { status: 200, body: { user: labelsOf(changed.record) } };
    },
    getEndpointLog: ({ params }) => ({ status: 200, body: manager.named(params.id).log.entries().map(statusChange) }),
    async getEndpointHealthz({ params }) {
      const endpoint = manager.named(params.id);
      return { status: 200, body: healthOf(endpoint.shownState, await connected(endpoint)) };
    },
    buildEndpoint({ params, body }) {
      const level = ([1, 2, 3, 4] as const).find((one) => one === body.level) ?? 1;
      manager.named(params.id).mending.trigger({ level, reason: body.reason ?? "a build was asked for over the API" });
      return { status: 202 };
    },
  };
}

/** @returns the number of errors met */
async function remove(id: number, { manager, removal, log }: EndpointParts): Promise<number> {
  const record = manager.get(id)?.record;
  // A second removal meanwhile has nothing left to do.
  const failure = record && (await failureOf(() => removal(record)));
  if (failure !== undefined) log.error(`endpoint ${id} is not removed yet: ${messageOf(failure)}`);
  return failure === undefined ? 0 : 1;
}

/** Refuses every option, since an endpoint has none yet. @throws TortieError `option-invalid` */
function refuseOptions(options: Readonly<Record<string, string>> = {}): void {
  const names = Object.keys(options);
  if (names.length > 0) throw new TortieError("option-invalid", `${names.join(", ")}: an endpoint has no such option`);
}

/** Shows an endpoint as the API does (A§2.4). @param isConnected what the kernel says of one that is being restored */
function endpointModel(endpoint: Endpoint, isConnected: boolean, identity: NumberedLabels | undefined): EndpointModel {
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
        ...(pod !== "" && { "k8s-namespace": namespace, "k8s-pod-name": name }),
        "k8s-pod-uid": record.podUID,
      },
      attachment: { network: attachment.network, "container-id": attachment.containerId, ifname: attachment.ifname },
      networking: { ...networkingOf(record), "link-form": record.linkForm, netns: netns.path },
      labels: labelsOf(record),
      ...(identity !== undefined && { identity: endpointIdentity(identity) }),
      health: healthOf(endpoint.shownState, isConnected),
      log: newest === undefined ? [] : [statusChange(newest)],
      "created-at": createdAt,
      "committed-at": committedAt,
    },
  };
}

/** Translates the shown state. "none" lasts only until the record is written. */
function stateOf({ shownState }: Endpoint): EndpointModel["status"]["state"] {
  return shownState === "none" ? "creating" : shownState;
}

function statusChange({ time, code, type, message, state }: StatusEntry) {
  return { timestamp: time, code, type, message, state };
}

function labelsOf({ labels }: Pick<EndpointRecord, "labels">): string[] {
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
    mac: podMac,
    "host-mac": hostMac,
    "interface-name": hostInterface?.name,
    "interface-alias": hostInterface?.alias,
    "interface-index": hostInterface?.index,
    "container-interface-name": podInterface,
  };
}

/**
 * Says how an endpoint is, by the state that it shows (A§5.9).
 *
 * @param isConnected what the kernel says: the link is up and has its addresses; counts only while the endpoint is being restored
 */
function healthOf(state: ShownState, isConnected: boolean): EndpointHealth {
  const all = (word: string, connected: boolean) => ({ bpf: word, policy: word, connected, overallHealth: word });
  switch (state) {
    case "regenerating":
    case "waiting-to-regenerate":
    case "disconnecting":
      return all("Pending", true);
    case "waiting-for-identity":
      return { ...all("Disabled", true), policy: "Bootstrap" };
    case "not-ready":
      return all("Warning", true);
    case "ready":
      return all("OK", true);
    case "restoring":
      return all("Pending", isConnected);
    default:
      return all("Disabled", false);
  }
}
