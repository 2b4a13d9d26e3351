/**
 * Which kind of links attaches pods (A§3.4): pairs alone. Another kind is refused at the start and at every ADD, so that pods are
 * never mistaken for what they are not; existing attachments can still be checked and removed.
 */
import { TortieError } from "../../lib/errors/errors.ts";
import type { Check } from "../../lib/resident/health.ts";

/** `veth` stands for pairs of either kind: the configuration's `device_type` says which. */
export type LinkMode = "veth" | "ipvlan";

/** `undefined`: ADDs are served. @returns TortieError `link-mode-unsupported` */
export function refusedLinkMode(mode: LinkMode): TortieError | undefined {
  if (mode === "veth") return undefined;
  return new TortieError(
    "link-mode-unsupported",
    `links of kind ${mode} are asked for by --datapath-mode: this node has pairs of links only`,
  );
}

/** No container can be added while the mode is refused. */
export function linkModeCheck({ message, next }: TortieError): Check {
  return { name: "link-mode", decides: "ready", look: () => ({ state: "failure", message, next }) };
}
