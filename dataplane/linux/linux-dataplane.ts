/** The dataplane on Linux: veth or netkit pairs, rtnetlink, /proc/sys. */
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { inNamespace, openNamespace } from "../../lib/system/netns.ts";
import type { Undo } from "../../lib/system/undo.ts";
import type { Dataplane } from "../dataplane.ts";
import type { AppliedState, Attachment, DesiredState, Difference } from "../desired-state.ts";
import { NETLINK_ROUTE, NetlinkError, NetlinkSocket } from "../netlink/socket.ts";
import { attach, type PreparedPair, preparePair, routePair } from "./attach.ts";
import { detach, detachHostEnd } from "./detach.ts";
import { inspect } from "./inspect.ts";
import { getLink, listLinks } from "./link.ts";

const DEVICE_KINDS: ReadonlySet<string> = new Set(["veth", "netkit"]);

export class LinuxDataplane implements Dataplane {
  #prepared: PreparedPair | undefined;

  async hasPodEnd(sandbox: string, podInterface: string): Promise<boolean> {
    return explained(`failed to look for interface ${podInterface} in ${sandbox}`, () => {
      using namespace = openNamespace(sandbox);
      using socket = inNamespace(namespace, () => NetlinkSocket.open(NETLINK_ROUTE));
      return getLink(socket, { name: podInterface }) !== undefined;
    });
  }

  prepare(desired: DesiredState, isComplete: boolean, undo: Undo): void {
    if (this.#prepared !== undefined) {
      this.#prepared = routePair(this.#prepared, desired);
      return;
    }
    this.#prepared = preparePair(desired, isComplete, undo);
    undo.defer(() => this.#takePrepared()?.site[Symbol.dispose]());
  }

  async apply(desired: DesiredState, undo: Undo): Promise<AppliedState> {
    const { host, pod, sandbox } = desired;
    const prepared = this.#takePrepared();
    return explained(`failed to connect ${pod.name} in ${sandbox} with ${host.name}`, () => attach(desired, undo, prepared));
  }

  async inspect(desired: DesiredState): Promise<readonly Difference[]> {
    return explained(`failed to inspect ${desired.pod.name} in ${desired.sandbox} and ${desired.host.name}`, () => inspect(desired));
  }

  async remove(attachment: Attachment): Promise<void> {
    return explained(`failed to remove ${attachment.podInterface} or ${attachment.hostInterface}`, () => detach(attachment));
  }

  async hostEndAlias(name: string): Promise<string | undefined> {
    return explained(`failed to look for interface ${name}`, () => {
      using socket = NetlinkSocket.open(NETLINK_ROUTE);
      return getLink(socket, { name })?.alias;
    });
  }

  async listOwned(prefix: string): Promise<readonly { readonly name: string; readonly alias: string }[]> {
    return explained("failed to list the interfaces of the host", () => {
      using socket = NetlinkSocket.open(NETLINK_ROUTE);
      return listLinks(socket)
        .filter(({ alias }) => alias.startsWith(prefix))
        .map(({ name, alias }) => ({ name, alias }));
    });
  }

  async removeUnfinished(prefix: string, mac: string): Promise<readonly string[]> {
    using socket = NetlinkSocket.open(NETLINK_ROUTE);
    const unfinished = listLinks(socket).filter(
      (link) => link.name.startsWith(prefix) && link.mac === mac && link.alias === "" && !link.isUp && DEVICE_KINDS.has(link.kind),
    );
    for (const { name } of unfinished) detachHostEnd(name, "");
    return unfinished.map(({ name }) => name);
  }

  async removeHostEnd(name: string, alias: string): Promise<void> {
    // It may be the one that was prepared.
    if (this.#prepared !== undefined) this.#prepared = { ...this.#prepared, isRouted: false };
    return explained(`failed to remove ${name}`, () => detachHostEnd(name, alias));
  }

  #takePrepared(): PreparedPair | undefined {
    const prepared = this.#prepared;
    this.#prepared = undefined;
    return prepared;
  }
}

/** Says what was being done when the kernel refused something that no step has words of its own for. */
async function explained<T>(what: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof NetlinkError) throw new TortieError("netlink-failed", `${what}: ${messageOf(error)}`, { cause: error });
    throw error;
  }
}
