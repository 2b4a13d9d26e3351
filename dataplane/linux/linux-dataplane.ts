/** Implements the dataplane on Linux: veth or netkit, rtnetlink, nf_tables, /proc/sys. Keeps nothing between calls but waiting deletions. */
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";
import { type AttachmentName, parseAttachmentAlias } from "../alias.ts";
import type {
  AppliedLink,
  AttachedLink,
  Dataplane,
  LinkOfAttachment,
  Mending,
  NetworkReport,
  NodeState,
  RecordedLink,
  RecordedPair,
  Removal,
} from "../dataplane.ts";
import type { DesiredState, Difference } from "../desired-state.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import { NetlinkError } from "../netlink/message.ts";
import { getLink, listLinks } from "../rtnetlink/link.ts";
import { applyNodeState } from "./apply-node-state.ts";
import { attach } from "./attach.ts";
import type { JoinedDeletions } from "./deletions.ts";
import { detach, detachFound } from "./detach.ts";
import { isUnfinished } from "./ends.ts";
import { drift, inspect, mend, settled } from "./inspect.ts";

export class LinuxDataplane implements Dataplane {
  readonly #host: HostSockets;
  readonly #deletions: JoinedDeletions | undefined;

  /**
   * @param host stays open as long as the dataplane is used; closed by whoever opened it
   * @param deletions in a process that serves many calls, what joins their deletions
   */
  constructor(host: HostSockets, deletions?: JoinedDeletions) {
    this.#host = host;
    this.#deletions = deletions;
  }

  async apply(sandbox: Sandbox, desired: DesiredState): Promise<AppliedLink> {
    const { host, pod } = desired;
    return explained(`failed to connect ${pod.name} in ${sandbox.path} with ${host.name}`, () => attach(this.#host, sandbox, desired));
  }

  async inspect(sandbox: Sandbox, desired: DesiredState, recorded?: RecordedLink): Promise<readonly Difference[]> {
    const { host, pod } = desired;
    return explained(`failed to inspect ${pod.name} in ${sandbox.path} and ${host.name}`, () =>
      settled(() => inspect(this.#host, sandbox, desired, recorded)),
    );
  }

  async drift(sandbox: Sandbox, recorded: RecordedPair): Promise<readonly Difference[]> {
    return explained(`failed to inspect ${recorded.desired.host.name}`, () => settled(() => drift(this.#host, sandbox, recorded)));
  }

  async mend(sandbox: Sandbox, recorded: RecordedPair): Promise<Mending> {
    return explained(`failed to mend ${recorded.desired.host.name}`, () => mend(this.#host, sandbox, recorded));
  }

  async remove(link: AttachedLink | LinkOfAttachment): Promise<Removal> {
    return explained(`failed to remove ${link.hostInterface}`, () =>
      "index" in link ? detachFound(this.#host, link, this.#deletions) : detach(this.#host, link, this.#deletions),
    );
  }

  async ownerOf(hostInterface: string): Promise<AttachmentName | undefined> {
    return explained(`failed to look at ${hostInterface}`, () =>
      parseAttachmentAlias(getLink(this.#host.route, { name: hostInterface })?.alias ?? ""),
    );
  }

  async list(): Promise<readonly AttachedLink[]> {
    return explained("failed to list the interfaces of the host", () => {
      return listLinks(this.#host.route).flatMap((link): AttachedLink[] => {
        const { name: hostInterface, index, alias } = link;
        const owner = parseAttachmentAlias(alias);
        if (owner !== undefined) return [{ hostInterface, index, owner }];
        return isUnfinished(link) ? [{ hostInterface, index }] : [];
      });
    });
  }

  async applyNode(state: NodeState): Promise<NetworkReport | undefined> {
    return explained("failed to set up the node", async () => {
      const lacking = applyNodeState(this.#host, state);
      if (state.network === undefined) return undefined;
      // Loaded only where it is used: a process that lives for one call pays for each module.
      const { applyNetwork } = await import("./apply-network.ts");
      const report = await applyNetwork(this.#host, state.network);
      return { ...report, failed: [...lacking, ...report.failed] };
    });
  }
}

/** Adds what was being done to a refusal of the kernel that no step has described. */
async function explained<T>(what: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof NetlinkError) throw new TortieError("netlink-failed", `${what}: ${messageOf(error)}`, { cause: error });
    throw error;
  }
}
