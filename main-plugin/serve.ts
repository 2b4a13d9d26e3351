/** One call of the main plugin on one node: the verb that CNI_COMMAND names, for an executable and for a process that serves many calls. */
import { renderResult } from "../lib/cni/result.ts";
import { ABSENT_VERSION_OF_MAIN_RESULT } from "../lib/cni/version.ts";
import { add } from "./add.ts";
import { isChained, serveChained } from "./attach-chained.ts";
import { type NetworkCall, resolveAddCall, resolveAttachmentCall } from "./call.ts";
import { check } from "./check.ts";
import { del } from "./del.ts";
import { nodeFor } from "./external-dataplane.ts";
import { gc } from "./gc.ts";
import type { Node } from "./node.ts";
import { status } from "./status.ts";

/** Verbs that are about an attachment: those of a chained one touch nothing. */
const CHAINED: ReadonlySet<string> = new Set(["ADD", "DEL", "CHECK"]);

/** @returns what is to be printed: the result of ADD, nothing for the other verbs */
export async function serve(call: NetworkCall, given: Node): Promise<string | undefined> {
  const { command, cniVersion } = call.request;
  if (isChained(call) && CHAINED.has(command)) return serveChained(call);
  const node = await nodeFor(call, given);
  switch (command) {
    case "ADD":
      return renderResult(await add(resolveAddCall(call), node), cniVersion ?? ABSENT_VERSION_OF_MAIN_RESULT);
    case "DEL":
      await del(resolveAttachmentCall(call), node);
      return undefined;
    case "CHECK":
      await check(resolveAddCall(call), node);
      return undefined;
    case "STATUS":
      await status(call, node);
      return undefined;
    case "GC":
      await gc(call, node);
      return undefined;
  }
}
