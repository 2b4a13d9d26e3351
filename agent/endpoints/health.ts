/** How an endpoint is, by the state that it shows (A§5.9). */
import type { State } from "./state/states.ts";

export type ShownState = State | "not-ready";

export interface EndpointHealth {
  readonly overallHealth: string;
  readonly bpf: string;
  readonly policy: string;
  readonly connected: boolean;
}

/** @param isConnected what the kernel says: the link is up and has its addresses; asked for only while the endpoint is being restored */
export function healthOf(state: ShownState, isConnected: boolean): EndpointHealth {
  switch (state) {
    case "regenerating":
    case "waiting-to-regenerate":
    case "disconnecting":
      return { bpf: "Pending", policy: "Pending", connected: true, overallHealth: "Pending" };
    case "waiting-for-identity":
      return { bpf: "Disabled", policy: "Bootstrap", connected: true, overallHealth: "Disabled" };
    case "not-ready":
      return { bpf: "Warning", policy: "Warning", connected: true, overallHealth: "Warning" };
    case "ready":
      return { bpf: "OK", policy: "OK", connected: true, overallHealth: "OK" };
    case "restoring":
      return { bpf: "Pending", policy: "Pending", connected: isConnected, overallHealth: "Pending" };
    default:
      return { bpf: "Disabled", policy: "Disabled", connected: false, overallHealth: "Disabled" };
  }
}
