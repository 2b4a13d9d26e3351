/** Asks whoever granted an address whether it still is the endpoint's: the block, the grant file, or the IPAM plugin's own CHECK. */

import { parseCall } from "../../handover/call-body.ts";
import type { EndpointRecord, RecordedAddress } from "../../handover/record.ts";
import type { IpamHost } from "../../ipam-plugin/host.ts";
import { isSameOwner } from "../../ipam-plugin/host-scope/grant-directory.ts";
import type { GrantFiles } from "../../ipam-plugin/host-scope/grant-files.ts";
import { type Address, parseAddress } from "../../lib/addresses/address.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { ForeignCniError, TortieError } from "../../lib/errors/errors.ts";
import { parseJson } from "../../lib/json/parse.ts";
import { isJsonObject } from "../../lib/json/value.ts";
import { encode } from "../../main-plugin/delegates.ts";
import { findIpam } from "../../main-plugin/find-ipam.ts";
import { connectIpam, ipamInput } from "../../main-plugin/ipam-source.ts";
import type { GrantWitness } from "../endpoints/mend-link.ts";
import { resolveCall, type ServedCall, type Surroundings } from "./call.ts";

export interface GrantWitnessParts extends Pick<Surroundings, "hosts" | "ipamType"> {
  readonly files: () => Pick<GrantFiles, "read">;
}

export class StoreWitness implements GrantWitness {
  readonly #parts: GrantWitnessParts;

  constructor(parts: GrantWitnessParts) {
    this.#parts = parts;
  }

  async isGranted(record: EndpointRecord, recorded: RecordedAddress): Promise<boolean> {
    const address = parseAddress(recorded.address);
    if (address === undefined) return false;
    switch (recorded.grant) {
      case "file":
        return this.#isGrantedByFile(record, recorded, address);
      case "block":
        return (await this.#isGrantedByBlock(record, recorded, address)) || (await this.#isGrantedByCheck(record));
      case "external":
        return this.#isGrantedByCheck(record);
    }
  }

  /** Takes the token as the proof of a registered endpoint's address, and the attachment as that of a container's. */
  async #isGrantedByFile({ attachment, pod }: EndpointRecord, { token }: RecordedAddress, address: Address): Promise<boolean> {
    const grant = (await this.#parts.files().read(address))?.grant;
    if (grant === undefined) return false;
    const owner = { kind: "attachment", ...attachment, pod } as const;
    return grant.token === token || isSameOwner(grant.owner, owner);
  }

  async #isGrantedByBlock(record: EndpointRecord, { handle }: RecordedAddress, address: Address): Promise<boolean> {
    const opening = this.ipamOf(record);
    if (opening === undefined || handle === undefined) return false;
    const { allocator } = await opening;
    try {
      return (await allocator.attributesOf(address))?.handle === handle;
    } catch (error) {
      if (error instanceof TortieError && error.word === "address-outside-pools") return false;
      throw error;
    }
  }

  /** Opens the allocator and store of the record's network; `undefined` for an endpoint that was registered. @throws Error */
  ipamOf(record: EndpointRecord): Promise<IpamHost> | undefined {
    return this.#callOf(record)?.host.ipam();
  }

  /** Runs the IPAM plugin's CHECK with the result of the ADD: a virtual machine's handle is its own, another plugin has its own store. */
  async #isGrantedByCheck(record: EndpointRecord): Promise<boolean> {
    const served = this.#callOf(record);
    if (served === undefined) return false;
    const { call, host } = served;
    try {
      await connectIpam(findIpam(call.request, call.config), ipamInput(call), call, host).run("CHECK");
      return true;
    } catch (error) {
      if (error instanceof ForeignCniError || (error instanceof TortieError && DENIALS.has(error.word))) return false;
      throw error;
    }
  }

  /** Makes the attachment's CHECK; `undefined` for an endpoint that was registered, and has no network configuration. */
  #callOf({ request, result }: EndpointRecord): ServedCall | undefined {
    if (request?.call === undefined) return undefined;
    const served = resolveCall(parseCall(request.call, "CHECK"), this.#parts);
    const prevResult = result === undefined ? undefined : parseJson(result);
    if (!isJsonObject(prevResult)) return served;
    const netconf = { ...served.call.request.netconf, prevResult };
    const stdin = encode(netconf);
    return {
      ...served,
      call: { ...served.call, request: { ...served.call.request, netconf, stdin }, config: decodeNetworkConfig(netconf) },
    };
  }
}

/** What says that the address is not the container's, as the error of another plugin does; other failures say that nobody could be asked. */
const DENIALS: ReadonlySet<string> = new Set(["check-failed", "container-unknown"]);
