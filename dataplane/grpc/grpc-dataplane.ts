/**
 * Drives a dataplane in another program of this node by gRPC (C§4.6): VPP, eBPF, a DPU. What it builds is its own business: none
 * of it is looked at, so CHECK compares addresses and records alone, and nothing is done to the node.
 */
import { formatPrefix } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";
import type {
  AppliedLink,
  AttachedLink,
  Dataplane,
  ExternalAttachment,
  LinkOfAttachment,
  Mending,
  NetworkReport,
  Removal,
} from "../dataplane.ts";
import type { DesiredState, Difference } from "../desired-state.ts";
import { ADD, callServer, DEL, type Reply } from "./protocol.ts";

/** Stands for an IP address that is not there, as Go prints it and servers have learned to read it. */
const NO_GATEWAY = "<nil>";
/** Allows IFNAMSIZ less the terminating zero (include/uapi/linux/if.h), and no character that /sys or the kernel refuses. */
const INTERFACE_NAME = /^(?!\.{1,2}$)[\x21-\x2e\x30-\x39\x3b-\x7e]{1,15}$/;
/** Allows six octets, the first of a unicast address. */
const MAC = /^[0-9a-f][02468ace](?::[0-9a-f]{2}){5}$/;
const NO_MAC = "00:00:00:00:00:00";

interface GrpcOptions {
  /** Names the server as gRPC does: "unix:///run/dataplane.sock". */
  readonly socket: string;
  /** Passed on with each request. */
  readonly options: Readonly<Record<string, string>>;
  /** Names the sandbox of the call: what an interrupted ADD of the same container made is in the same one. */
  readonly sandbox: string;
}

export class GrpcDataplane implements Dataplane {
  readonly #options: GrpcOptions;

  constructor(options: GrpcOptions) {
    this.#options = options;
  }

  /** @throws TortieError as `callServer`; `internal` without `attachment` */
  async apply(sandbox: Sandbox, desired: DesiredState, attachment?: ExternalAttachment): Promise<AppliedLink> {
    if (attachment === undefined) throw new TortieError("internal", "the gRPC dataplane was not told whose attachment it makes");
    const remove = () => this.#remove(desired.pod.name, sandbox.path);
    let reply: Reply;
    try {
      reply = await callServer(this.#options.socket, ADD, addRequest(sandbox, desired, attachment, this.#options.options));
      assertUsable(reply);
    } catch (error) {
      // The server may have attached the pod: its answer was lost, or is of no use. After a refusal of its own there is nothing to undo.
      if (error instanceof TortieError && ["dataplane-timeout", "dataplane-answer-invalid"].includes(error.word))
        await undone(remove, error);
      throw error;
    }
    return {
      podMac: reply.containerMac.toLowerCase(),
      ...(reply.hostInterfaceName === "" ? {} : { hostInterface: reply.hostInterfaceName }),
      hostIndex: 0,
      kind: "veth",
      warnings: [],
      [Symbol.asyncDispose]: remove,
    };
  }

  /** Finds nothing: what the other program has built cannot be looked at from here. */
  async inspect(): Promise<readonly Difference[]> {
    return [];
  }

  async drift(): Promise<readonly Difference[]> {
    return [];
  }

  async mend(): Promise<Mending> {
    return { mended: [], left: [] };
  }

  /** Removes the link; an older sandbox of the same workload is unknown here: its own DEL removes what it has. */
  async remove(link: AttachedLink | LinkOfAttachment): Promise<Removal> {
    if ("podInterface" in link && link.predecessors === undefined) {
      await this.#remove(link.podInterface, this.#options.sandbox);
    }
    return {};
  }

  async ownerOf(): Promise<undefined> {
    return undefined;
  }

  async list(): Promise<readonly AttachedLink[]> {
    return [];
  }

  async applyNode(): Promise<NetworkReport | undefined> {
    return undefined;
  }

  async #remove(podInterface: string, sandbox: string): Promise<void> {
    const { socket, options } = this.#options;
    await callServer(socket, DEL, { interface_name: podInterface, netns: sandbox, dataplane_options: options });
  }
}

function addRequest(
  sandbox: Sandbox,
  { device, host, pod }: DesiredState,
  attachment: ExternalAttachment,
  options: GrpcOptions["options"],
) {
  const { workload, addresses, routes, allowIpForwarding } = attachment;
  const { ports, ...identity } = workload;
  const given = addresses.length > 0 ? addresses : pod.addresses.map((prefix) => ({ address: formatPrefix(prefix), gateway: undefined }));
  return {
    interface_name: pod.name,
    netns: sandbox.path,
    desired_host_interface_name: host.name,
    settings: { allow_ip_forwarding: allowIpForwarding, mtu: device.mtu },
    container_ips: given.map(({ address, gateway }) => ({ address, gateway: gateway ?? NO_GATEWAY })),
    container_routes: routes,
    workload: {
      ...identity,
      ports: ports.map(({ name, protocol, port, hostPort, hostIP }) => ({ name, protocol, port, host_port: hostPort, host_ip: hostIP })),
    },
    dataplane_options: options,
  };
}

/** Refuses what cannot go into result and record, by which Felix enforces policy. @throws TortieError `dataplane-answer-invalid` */
function assertUsable({ hostInterfaceName, containerMac }: Reply): void {
  const mac = containerMac.toLowerCase();
  if (!MAC.test(mac) || mac === NO_MAC) throw unusable(`container_mac ${shown(containerMac)} is no MAC address of an interface`);
  if (hostInterfaceName !== "" && !INTERFACE_NAME.test(hostInterfaceName)) {
    throw unusable(`host_interface_name ${shown(hostInterfaceName)} is no name of an interface`);
  }
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 40));
}

function unusable(message: string): TortieError {
  return new TortieError("dataplane-answer-invalid", `the gRPC dataplane answered what cannot be used: ${message}`);
}

/** @throws SuppressedError with `error` when that fails too */
async function undone(remove: () => Promise<void>, error: unknown): Promise<void> {
  try {
    await remove();
  } catch (failure) {
    throw new SuppressedError(failure, error);
  }
}
