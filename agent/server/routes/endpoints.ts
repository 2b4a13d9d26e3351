/** Endpoints (A§2.3, A§2.7). */
import { TortieError } from "../../../lib/errors/errors.ts";
import type { EndpointModel } from "../../api/endpoint-models.ts";
import { healthOf } from "../../endpoints/health.ts";
import { endpointModel, labelsOf, type ShownEndpoint, statusChange } from "../endpoint-model.ts";
import type { HandlerAnswer, Handlers } from "../handler.ts";
import type { EndpointsPort } from "../ports.ts";

type EndpointOperations = Extract<keyof Handlers, `${string}Endpoint${string}`>;

/** Builds that a caller asks for: a change redoes what depends on it, an explicit wish everything (A§5.5). */
const LEVEL_OF_CHANGE = 3;
const LEVEL_OF_WISH = 4;

export function endpointHandlers(port: EndpointsPort): Pick<Handlers, EndpointOperations> {
  const model = async (endpoint: ShownEndpoint): Promise<EndpointModel> =>
    endpointModel(endpoint, endpoint.shownState === "restoring" && (await port.isConnected(endpoint.record)));
  const removed = (errors: number): HandlerAnswer => (errors === 0 ? { status: 200 } : { status: 206, body: errors });
  return {
    async listEndpoints({ query: { label = [], state } }) {
      const wanted = typeof label === "string" ? [label] : label;
      const models = await Promise.all(port.all().map(model));
      const found = models.filter(
        ({ status }) => wanted.every((one) => status.labels.includes(one)) && (state ?? status.state) === status.state,
      );
      return { status: 200, body: found };
    },
    getEndpoint: async ({ params }) => ({ status: 200, body: await model(port.named(params.id)) }),
    async putEndpoint({ body }) {
      const { isNew, endpoint } = await port.register(body);
      return { status: isNew ? 201 : 200, body: await model(endpoint) };
    },
    async patchEndpoint({ params, body }) {
      return { status: 200, body: await model(await port.change(port.named(params.id).id, body)) };
    },
    deleteEndpoint: async ({ params }) => removed(await port.remove(port.named(params.id).id)),
    async deleteEndpointsOf({ body }) {
      const container = body["container-id"];
      const ids = port.endpoints().flatMap(({ id, record }) => (record.attachment.containerId === container ? [id] : []));
      const errors = await Promise.all(ids.map((id) => port.remove(id)));
      return removed(errors.reduce((sum, count) => sum + count, 0));
    },
    getEndpointConfig({ params }) {
      port.named(params.id);
      return { status: 200, body: { options: {} } };
    },
    patchEndpointConfig({ params, body }) {
      const { id } = port.named(params.id);
      refuseOptions(body.options);
      const isWish = body.options === undefined;
      port.build(
        id,
        isWish ? LEVEL_OF_WISH : LEVEL_OF_CHANGE,
        isWish ? "endpoint was manually regenerated via API" : "endpoint was updated via API",
      );
      return { status: 200, body: { options: {} } };
    },
    getEndpointLabels: ({ params }) => ({ status: 200, body: { user: labelsOf(port.named(params.id).record) } }),
    async patchEndpointLabels({ params, body }) {
      const changed = await port.change(port.named(params.id).id, { labels: body.user });
      return { status: 200, body: { user: labelsOf(changed.record) } };
    },
    getEndpointLog: ({ params }) => ({ status: 200, body: port.named(params.id).log.entries().map(statusChange) }),
    async getEndpointHealthz({ params }) {
      const { shownState, record } = port.named(params.id);
      return { status: 200, body: healthOf(shownState, shownState === "restoring" && (await port.isConnected(record))) };
    },
    buildEndpoint({ params, body }) {
      port.build(port.named(params.id).id, body.level ?? 1, body.reason ?? "a build was asked for over the API");
      return { status: 202 };
    },
  };
}

/** An endpoint has no options yet: whatever is given is not known. @throws TortieError `option-invalid` */
function refuseOptions(options: Readonly<Record<string, string>> = {}): void {
  const names = Object.keys(options);
  if (names.length > 0) throw new TortieError("option-invalid", `${names.join(", ")}: an endpoint has no such option`);
}
