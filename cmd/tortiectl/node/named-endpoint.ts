/** Which endpoint a person means: what the agent's API takes, or any name that is seen on a node. */
import type { EndpointModel } from "../../../agent/api/endpoint-schema.ts";
import { formatAddress, parseAddress } from "../../../lib/addresses/address.ts";
import { TortieError } from "../../../lib/errors/errors.ts";

/** A number, or a name with its prefix (docs/reference/api.md): the agent's own names. */
export function isNameOfApi(text: string): boolean {
  return /^\d{1,5}$/.test(text) || /^(?:cilium-local|local|container-id|attachment|cni-attachment-id|pod-name|ipv4|ipv6):/.test(text);
}

/**
 * The endpoint whose address, pod (with or without its namespace), host interface or container id is `text`; else the one whose container
 * id alone begins so.
 * @throws TortieError `endpoint-unknown`, `endpoint-ambiguous` with the numbers of those that it could be
 */
export function endpointNamed(text: string, endpoints: readonly EndpointModel[]): EndpointModel {
  const address = parseAddress(text);
  const written = address === undefined ? text : formatAddress(address);
  const exact = endpoints.filter((endpoint) => namesOf(endpoint).includes(written));
  const found = exact.length > 0 ? exact : endpoints.filter((endpoint) => containerOf(endpoint).startsWith(text));
  const [only] = found;
  if (only === undefined) throw new TortieError("endpoint-unknown", `no endpoint of this node is called ${JSON.stringify(text)}`);
  if (found.length === 1) return only;
  const list = found.map((one) => `${one.id} (${containerOf(one)})`).join(", ");
  throw new TortieError("endpoint-ambiguous", `${JSON.stringify(text)} may be one of ${list}`);
}

function namesOf(endpoint: EndpointModel): readonly string[] {
  const { networking, "external-identifiers": identifiers } = endpoint.status;
  const { "k8s-pod-name": pod, "k8s-namespace": namespace } = identifiers;
  return [
    containerOf(endpoint),
    ...networking.addresses.map((one) => one.address),
    ...(networking["interface-name"] === undefined ? [] : [networking["interface-name"]]),
    ...(pod === undefined ? [] : [pod, `${namespace}/${pod}`]),
  ];
}

function containerOf({ status }: EndpointModel): string {
  return status["external-identifiers"]["container-id"];
}
