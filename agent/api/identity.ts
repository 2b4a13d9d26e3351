/** Serves identities: the numbers of sets of labels that this agent knows of (docs/reference/identities.md). */
import { TortieError } from "../../lib/errors/errors.ts";
import type { NumberedLabels, ShownIdentity, WatchedIdentities } from "../policy/identities/lookup.ts";
import { type HandlersOf, model, type Operations, ref, type Static, Type, words } from "./operation.ts";

const IDENTITY_NUMBER = Type.Integer({ minimum: 0, maximum: 0xffff_ffff, description: "0: the labels have no number (yet)" });
const IDENTITY_LABELS = Type.Array(Type.String({ description: "source:key=value" }));

export const EndpointIdentity = model("EndpointIdentity", "The number of an endpoint's labels.", {
  id: IDENTITY_NUMBER,
  labels: IDENTITY_LABELS,
});

export const IdentityModel = model("Identity", "A number, and the labels that it stands for.", {
  id: IDENTITY_NUMBER,
  labels: IDENTITY_LABELS,
  state: words("active", "retired", "reserved"),
  "created-at": Type.Optional(Type.String({ description: "RFC 3339" })),
});
export type IdentityModel = Static<typeof IdentityModel>;

export const IDENTITY_OPERATIONS = {
  listIdentities: {
    method: "GET",
    path: "/identity",
    summary: "All identities of the cluster, without the reserved ones",
    answers: { 200: Type.Array(ref(IdentityModel)) },
  },
  getIdentity: {
    method: "GET",
    path: "/identity/{id}",
    summary: "One identity",
    params: Type.Object({ id: Type.Integer({ minimum: 1, maximum: 0xffff_ffff }) }),
    answers: { 200: ref(IdentityModel) },
  },
} as const satisfies Operations;

/** @param ready `undefined` where the agent shows no identities */
export function identityHandlers(ready: () => Promise<WatchedIdentities | undefined>): HandlersOf<typeof IDENTITY_OPERATIONS> {
  const identities = async () => {
    const lookup = await ready();
    if (lookup !== undefined) return lookup;
    throw new TortieError("identities-off", "this agent does not look at identities");
  };
  return {
    listIdentities: async () => ({ status: 200, body: (await identities()).list().map(identityModel) }),
    async getIdentity({ params: { id } }) {
      const found = (await identities()).get(id);
      if (found === undefined) throw new TortieError("identity-unknown", `there is no identity ${id}`);
      return { status: 200, body: identityModel(found) };
    },
  };
}

export function endpointIdentity({ number, labels }: NumberedLabels): Static<typeof EndpointIdentity> {
  return { id: number, labels: [...labels] };
}

/** Shows an identity as the API does. */
export function identityModel({ number, labels, state, createdAt }: ShownIdentity): IdentityModel {
  return { id: number, labels: [...labels], state, ...(createdAt !== "" && { "created-at": createdAt }) };
}
