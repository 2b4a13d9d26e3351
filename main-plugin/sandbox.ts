/** The sandbox of a call: the one that the serving process has proven, or the one that the request names now. */
import { TortieError } from "../lib/errors/errors.ts";
import { Sandbox } from "../lib/system/sandbox.ts";
import type { AttachmentCall } from "./call.ts";

type SandboxCall = Pick<AttachmentCall, "request" | "residence">;

/** @throws TortieError `netns-missing`, `netns-invalid`, `netns-own` */
export function openSandbox({ request, residence }: SandboxCall): Sandbox {
  const proven = residence?.sandbox;
  if (proven === undefined || proven === "gone") return Sandbox.named(request.netns, { allowsOwn: request.netnsOverride });
  return proven.borrowed();
}

/**
 * For DEL, which also ends what is no longer in any sandbox.
 * @returns `undefined` when the sandbox is gone
 * @throws TortieError `netns-invalid`, `netns-own`
 */
export function openSandboxToRemove(call: SandboxCall): Sandbox | undefined {
  const { request, residence } = call;
  if (residence?.sandbox === "gone" || (residence?.sandbox === undefined && request.netns === "")) return undefined;
  try {
    return openSandbox(call);
  } catch (error) {
    if (!(error instanceof TortieError)) throw error;
    if (error.word === "netns-missing") return undefined;
    if (error.word === "netns-invalid") throw new TortieError(error.word, `failed to enter netns: ${error.message}`, { cause: error });
    throw error;
  }
}
