/** One call of the main plugin on one node: the verb that CNI_COMMAND names, for an executable and for whoever serves many calls. */
import { renderResult } from "../lib/cni/result.ts";
import { ABSENT_VERSION_OF_MAIN_RESULT } from "../lib/cni/version.ts";
import { createAccess } from "./access.ts";
import { add } from "./add.ts";
import { type NetworkCall, resolveAddCall } from "./call.ts";
import { check } from "./check.ts";
import { del } from "./del.ts";
import { gc } from "./gc.ts";
import type { Node } from "./node.ts";
import { createServices } from "./services.ts";
import { status } from "./status.ts";

/** @returns what is to be printed: the result of ADD, nothing for the other verbs */
export async function serve(call: NetworkCall, node: Node): Promise<string | undefined> {
  const { request, config, env, log } = call;
  if (request.command === "ADD") {
    const addCall = resolveAddCall(call);
    log.step("checks");
    return renderResult(await add(addCall, node), request.cniVersion ?? ABSENT_VERSION_OF_MAIN_RESULT);
  }
  const services = createServices(config, createAccess(config, env, log));
  switch (request.command) {
    case "DEL":
      await del(request, config, services);
      return undefined;
    case "CHECK":
      await check(request, config, services);
      return undefined;
    case "STATUS":
      await status(request, config, services);
      return undefined;
    case "GC":
      await gc(request, config, services);
      return undefined;
  }
}
