/** Serves a DEL whose agent is unavailable: the pod's end of the network goes at once, the addresses when the agent is back (A§11.5). */

import { AttachmentLocks } from "../../handover/attachment-locks.ts";
import { DeleteQueueFiles } from "../../handover/delete-queue-files.ts";
import { attachmentOf, fileKey } from "../../lib/cni/attachment-id.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { makeDirectories } from "../../lib/system/files.ts";
import { withCookie } from "../../lib/system/sandbox.ts";
import { type NetworkCall, resolveAttachmentCall } from "../call.ts";
import { unplug } from "../del.ts";
import type { Host } from "../host.ts";
import type { Way } from "./ask.ts";

const RUN_MODE = 0o755;

/**
 * Removes the link with its host routes, and leaves the rest to the agent's delete queue, which survives a crash of any process.
 * @throws TortieError `delete-queue-full`, `attachment-locked`; as `unplug`; an error of node:fs
 */
export async function unplugAndQueueDelete(
  call: NetworkCall,
  host: Host,
  { call: { netns, runDirectory, ...given }, why }: Extract<Way, { kind: "unplug" }>,
): Promise<undefined> {
  const { log, signal } = call;
  const attachment = attachmentOf(call.request);
  // After a boot the plugin may come before the agent, which lets the group of its API pass this directory.
  makeDirectories(runDirectory.path, RUN_MODE);
  const onWait = (message: string) => log.writeNow("info", message);
  using _ = await new AttachmentLocks(runDirectory.attachments).take(fileKey(attachment), { signal, onWait });
  await unplug(resolveAttachmentCall(call), host);
  log.step("dataplane");
  const queue = new DeleteQueueFiles(runDirectory.deleteQueue);
  // The descriptor ends with this process.
  const { fd: _fd, ...place } = netns;
  if (!(await queue.write(fileKey(attachment), { ...given, netns: withCookie(place) }))) {
    throw new TortieError("delete-queue-full", `the agent's delete queue ${queue.directory} is full: the addresses are still allocated`);
  }
  log.info(`the agent releases the addresses: ${why}`);
  return undefined;
}
