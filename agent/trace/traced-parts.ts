/** What a call asks of the kernel, of the API server and of etcd, as parts of its trace. */
import type { Dataplane } from "../../dataplane/dataplane.ts";
import type { EtcdClientOptions } from "../../lib/datastore/etcd/etcd-client.ts";
import type { ApiClient } from "../../lib/kubernetes/api-client.ts";
import type { Tracing } from "./tracing.ts";

type Parts = Pick<Tracing, "during">;

/** @param inner serves every method without its object */
export function tracedDataplane(inner: Dataplane, tracing: Parts | undefined): Dataplane {
  if (tracing === undefined) return inner;
  return {
    apply: (sandbox, desired, attachment) =>
      tracing.during("kernel apply", { "network.interface.name": desired.host.name }, () => inner.apply(sandbox, desired, attachment)),
    inspect: (sandbox, desired, recorded) => tracing.during("kernel inspect", {}, () => inner.inspect(sandbox, desired, recorded)),
    drift: (sandbox, recorded) => inner.drift(sandbox, recorded),
    mend: (sandbox, recorded) => tracing.during("kernel mend", {}, () => inner.mend(sandbox, recorded)),
    remove: (link) => tracing.during("kernel remove", { "network.interface.name": link.hostInterface }, () => inner.remove(link)),
    list: () => tracing.during("kernel list", {}, () => inner.list()),
    applyNode: (state) => tracing.during("kernel node", {}, () => inner.applyNode(state)),
  };
}

/** A write that several calls share is a part of the one that began it. */
export function tracedClient(inner: ApiClient, tracing: Parts | undefined): ApiClient {
  if (tracing === undefined) return inner;
  return {
    server: inner.server,
    request(request) {
      const [path = ""] = request.path.split("?");
      const attributes = { "http.request.method": request.method, "url.path": path, "server.address": inner.server };
      return tracing.during(request.method, attributes, () => inner.request(request));
    },
    close: () => inner.close(),
  };
}

/** etcd's gateway has a path for each operation: "/v3/kv/txn". */
export function tracedEtcd(tracing: Parts | undefined): EtcdClientOptions["around"] {
  return tracing && ((path, ask) => tracing.during(`etcd ${path}`, { "url.path": path }, ask));
}
