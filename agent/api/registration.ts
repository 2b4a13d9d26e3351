/**
 * Registers endpoints over the API (A§2.7): another program made the interface, and the agent keeps it as an endpoint of form
 * `attached`. Repeating a request is harmless; an attachment and its addresses never change.
 */

import type { EndpointRecord, NewEndpoint, RecordedAddress } from "../../handover/record.ts";
import { formatAddress, parseAddress } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { isText, listOf } from "../../lib/json/decode.ts";
import { withCookie } from "../../lib/system/sandbox.ts";
import type { NodeRanges } from "../addresses/ranges/start.ts";
import type { Endpoint } from "../endpoints/endpoint.ts";
import type { EndpointManager } from "../endpoints/manager.ts";
import type { EndpointChangeRequest } from "./endpoint-schema.ts";

type RegisteredEndpoints = Pick<EndpointManager, "get" | "find" | "withAddress" | "begin" | "write" | "commit">;
/** What a request says of an endpoint. */
type Wanted = NewEndpoint & Pick<EndpointRecord, "addresses"> & ReturnType<typeof changeable>;

type RegistrationGrants = Pick<NodeRanges, "ownerOf" | "confirm">;

/** Networks of endpoints whose request names none. */
const NO_NETWORK = "api";
const RESERVED = "reserved:";
const isTextList = listOf(isText);

export class Registration {
  readonly #endpoints: RegisteredEndpoints;
  readonly #grants: RegistrationGrants;

  constructor(endpoints: RegisteredEndpoints, grants: RegistrationGrants) {
    this.#endpoints = endpoints;
    this.#grants = grants;
  }

  /** @throws TortieError `call-invalid`, `endpoint-differs`, `address-taken` */
  async register(request: EndpointChangeRequest): Promise<{ readonly isNew: boolean; readonly endpoint: Endpoint }> {
    refuseReserved(request);
    const wanted = this.#recordOf(request);
    const known = this.#endpoints.find(wanted.attachment);
    if (known !== undefined) {
      const fields = differences(known, wanted);
      if (fields.length > 0) {
        throw new TortieError("endpoint-differs", `endpoint ${known.id} is registered with another ${fields.join(", ")}`);
      }
      return { isNew: false, endpoint: this.#endpoint(known.id) };
    }
    this.#refuseTaken(wanted);
    await this.#confirmGrants(wanted);
    // Another request may have registered the attachment or the address meanwhile.
    if (this.#endpoints.find(wanted.attachment) !== undefined) return this.register(request);
    this.#refuseTaken(wanted);
    const { attachment, netns, podInterface, linkForm, addresses, pod, podUID } = wanted;
    const begun = await this.#endpoints.begin({ attachment, netns, podInterface, linkForm, addresses, pod, podUID });
    const { id } = await this.#endpoints.commit({ ...begun, ...wanted });
    return { isNew: true, endpoint: this.#endpoint(id) };
  }

  /** Changes interface, MACs and labels. @throws TortieError `endpoint-immutable`, `endpoint-unknown` */
  async change(id: number, request: EndpointChangeRequest): Promise<Endpoint> {
    refuseReserved(request);
    const { record } = this.#endpoint(id);
    const { attachment, addressing } = request;
    const container = request["container-id"] ?? attachment?.["container-id"];
    const isOther =
      (container !== undefined && container !== record.attachment.containerId) ||
      (attachment !== undefined && (attachment.network !== record.attachment.network || attachment.ifname !== record.attachment.ifname)) ||
      (addressing !== undefined && addressText(addressesOf(request)) !== addressText(record.addresses));
    if (isOther) throw new TortieError("endpoint-immutable", `the attachment and the addresses of endpoint ${id} never change`);
    await this.#endpoints.write({ ...record, ...changeable(request) });
    return this.#endpoint(id);
  }

  #endpoint(id: number): Endpoint {
    const endpoint = this.#endpoints.get(id);
    if (endpoint === undefined) throw new TortieError("endpoint-unknown", `endpoint not found: ${id}`);
    return endpoint;
  }

  #recordOf(request: EndpointChangeRequest): Wanted {
    const containerId = request.attachment?.["container-id"] ?? request["container-id"] ?? "";
    const ifname = request.attachment?.ifname ?? "eth0";
    if (containerId === "") throw new TortieError("call-invalid", "container-id: a container id is wanted");
    const attachment = { network: request.attachment?.network ?? NO_NETWORK, containerId, ifname };
    const [pod, namespace] = [request["k8s-pod-name"] ?? "", request["k8s-namespace"] ?? ""];
    return {
      attachment,
      netns: withCookie({ path: "", ...request.netns }),
      podInterface: ifname,
      linkForm: "attached",
      addresses: addressesOf(request).map((address) => this.#granted(address, request)),
      pod: pod === "" || namespace === "" ? undefined : `${namespace}/${pod}`,
      podUID: request["k8s-pod-uid"] || undefined,
      ...changeable(request),
    };
  }

  /** Checks that an address of this node's range was granted to the client that registers it; the grant's token proves it. */
  #granted(given: RecordedAddress, { addressing = {} }: EndpointChangeRequest): RecordedAddress {
    const grant = this.#grants.ownerOf(given.address);
    if (grant === undefined) return given;
    if (addressing[`ipv${given.family}-expiration-uuid`] !== grant.token) {
      throw new TortieError("address-taken", `${given.address} is granted to ${grant.owner}: its token is wanted as expiration-uuid`);
    }
    return { ...given, grant: "file", token: grant.token };
  }

  /** Confirms before the record is begun: if the registration ends here, the sweep finds a grant without an endpoint. */
  async #confirmGrants({ addresses, attachment, pod }: Wanted): Promise<void> {
    for (const { address, grant, token } of addresses) {
      if (grant !== "file" || token === undefined) continue;
      if (!(await this.#grants.confirm(address, token, attachment, pod))) {
        throw new TortieError("address-taken", `the grant of ${address} has ended: request the address again`);
      }
    }
  }

  #refuseTaken({ addresses }: Wanted): void {
    for (const { family, address } of addresses) {
      const [holder] = this.#endpoints.withAddress(family, address);
      if (holder !== undefined)
        throw new TortieError("address-taken", `IP ipv${family}:${address} is already in use by endpoint ${holder.id}`);
    }
  }
}

function addressesOf({ addressing = {} }: EndpointChangeRequest): RecordedAddress[] {
  return ([4, 6] as const).flatMap((family) => {
    const text = addressing[`ipv${family}`] ?? "";
    if (text === "") return [];
    const address = parseAddress(text);
    if (address?.family !== family) throw new TortieError("call-invalid", `addressing/ipv${family}: "${text}" is no such address`);
    return [{ address: formatAddress(address), family, grant: "external" as const }];
  });
}

/** Picks what a later request may change. A member that the request lacks is absent: the record keeps its own. */
function changeable(request: EndpointChangeRequest) {
  const { mac, labels, "host-mac": hostMac, "interface-name": name = "", "interface-index": index } = request;
  return {
    ...(mac !== undefined && { podMac: mac.toLowerCase() }),
    ...(hostMac !== undefined && { hostMac: hostMac.toLowerCase() }),
    ...(labels !== undefined && { labels }),
    ...(name !== "" && { hostInterface: { name, alias: request["interface-alias"] ?? "", index: index || undefined } }),
  };
}

/** Names what differs, as a request has it. */
function differences(known: EndpointRecord, wanted: Partial<EndpointRecord>): string[] {
  const compared: readonly (readonly [string, unknown, unknown])[] = [
    ["mac", known.podMac, wanted.podMac],
    ["host-mac", known.hostMac, wanted.hostMac],
    ["addressing", addressText(known.addresses), addressText(wanted.addresses ?? [])],
    ["interface-name", known.hostInterface?.name, wanted.hostInterface?.name],
    ["interface-index", known.hostInterface?.index, wanted.hostInterface?.index],
    ["k8s-pod-name", known.pod, wanted.pod],
    ["k8s-pod-uid", known.podUID, wanted.podUID],
    ["labels", labelText(known), labelText(wanted)],
  ];
  return compared.flatMap(([name, one, other]) => (one === other ? [] : [name]));
}

function addressText(addresses: readonly RecordedAddress[]): string {
  return addresses
    .map(({ address }) => address)
    .sort()
    .join(" ");
}

function labelText({ labels }: Partial<Pick<EndpointRecord, "labels">>): string {
  return isTextList(labels) ? [...labels].sort().join("\n") : "";
}

/** Clients must not claim reserved identities. */
function refuseReserved({ labels = [] }: EndpointChangeRequest): void {
  const reserved = labels.filter((label) => label.startsWith(RESERVED));
  if (reserved.length > 0) throw new TortieError("call-invalid", `Not allowed to add reserved labels: ${reserved.join(", ")}`);
}
