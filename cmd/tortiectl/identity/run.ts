/** Runs `tortiectl identity …`: asks this node's agent, or the API server. */
import type { AgentClient } from "../../../agent/api/client.ts";
import { type IdentityModel, identityModel } from "../../../agent/api/identity.ts";
import { WatchedIdentities } from "../../../agent/policy/identities/lookup.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { IDENTITIES } from "../../../lib/identity/identity-object.ts";
import { ApiError, everyItem } from "../../../lib/kubernetes/api-client.ts";
import { openApiClient } from "../../../lib/kubernetes/client/client.ts";
import { asking } from "../ask-agent.ts";
import { json } from "../node/run.ts";
import { columns, type Output, printsDocument, type Terminal } from "../terminal.ts";

/** Who is asked. */
export type IdentitySource = { readonly socket: string } | { readonly kubeconfig: string };

interface ListOptions {
  readonly output: Output;
}

interface ShowOptions {
  readonly number: string;
  readonly json: boolean;
}

/** What either of them answers. */
interface Answerer {
  list(): Promise<readonly IdentityModel[]>;
  /** @throws an error whose word is `identity-unknown` */
  get(id: number): Promise<IdentityModel>;
  /** The node's pods with the identity; `undefined` where no agent is asked. */
  pods(id: number): Promise<readonly string[] | undefined>;
}

/** @returns exit status @throws where nobody can be asked */
export function list({ output, ...source }: ListOptions & IdentitySource, terminal: Terminal): Promise<number> {
  return answered(source, terminal, async (answerer) => {
    const found = await answerer.list();
    if (await printsDocument(terminal, output, () => json(found))) return 0;
    const isWide = output === "wide";
    const rows = found.map(({ id, state, labels, "created-at": at }) => [
      String(id),
      state,
      ...(isWide ? [at ?? "-"] : []),
      labels.join(" "),
    ]);
    for (const line of columns([["ID", "STATE", ...(isWide ? ["CREATED"] : []), "LABELS"], ...rows], "")) terminal.out(line);
    if (found.length === 0) terminal.err("no identities");
    return 0;
  });
}

/** @returns exit status @throws where there is no such identity, or nobody can be asked */
export function show({ number, json: isJson, ...source }: ShowOptions & IdentitySource, terminal: Terminal): Promise<number> {
  return answered(source, terminal, async (answerer) => {
    const id = Number(number);
    if (!/^[1-9][0-9]{0,9}$/.test(number)) throw new TortieError("identity-unknown", `${JSON.stringify(number)} is no identity`);
    const found = await answerer.get(id);
    const pods = await answerer.pods(id);
    if (isJson) {
      terminal.out(json({ ...found, ...(pods !== undefined && { pods }) }));
      return 0;
    }
    const [first = "-", ...others] = found.labels;
    const facts = [
      ["identity", String(found.id)],
      ["state", found.state],
      ["created", found["created-at"] ?? "-"],
      ["labels", first],
      ...others.map((label) => ["", label]),
      ...(pods === undefined ? [] : [["pods here", pods.join(", ") || "-"]]),
    ];
    for (const line of columns(facts, "")) terminal.out(line);
    return 0;
  });
}

async function answered(source: IdentitySource, terminal: Terminal, work: (answerer: Answerer) => Promise<number>): Promise<number> {
  if ("socket" in source) return asking(source, terminal, (client) => work(agentAnswerer(client)));
  return work(await serverAnswerer(source.kubeconfig));
}

function agentAnswerer(client: AgentClient): Answerer {
  return {
    list: async () => (await client.call("listIdentities", {})).body,
    get: async (id) => (await client.call("getIdentity", { params: { id } })).body,
    async pods(id) {
      const { body } = await client.call("listEndpoints", {});
      return body.flatMap(({ status: { identity, "external-identifiers": names } }) =>
        identity?.id === id && names["k8s-pod-name"] !== undefined ? [`${names["k8s-namespace"]}/${names["k8s-pod-name"]}`] : [],
      );
    },
  };
}

/** @throws TortieError `identities-off` where the cluster does not define them; what leads to no API server */
async function serverAnswerer(kubeconfig: string): Promise<Answerer> {
  const config = decodeNetworkConfig({ datastore_type: "kubernetes", kubernetes: { kubeconfig } });
  using client = openApiClient(config, {});
  try {
    const found = (await everyItem(client, IDENTITIES.path)).map((item) => IDENTITIES.decode(item));
    const lookup = new WatchedIdentities({ list: () => found, onChange: () => () => undefined }, () => undefined);
    return {
      list: async () => lookup.list().map(identityModel),
      async get(id) {
        const identity = lookup.get(id);
        if (identity === undefined) throw new TortieError("identity-unknown", `there is no identity ${id}`);
        return identityModel(identity);
      },
      pods: async () => undefined,
    };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    throw new TortieError("identities-off", "the cluster has no definition of TortieIdentity", {
      next: "apply manifests/crds/tortie.dev/tortieidentities.yaml; tortie-controller then makes them",
    });
  }
}
