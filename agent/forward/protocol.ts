/** The call of a plugin to the agent, as it goes over the socket (A§11.3): `POST /v1/cni/add|del|check|gc|status`. */

/** Version of the members below. An agent that does not know it answers 400 `protocol-unsupported`. */
export const PROTOCOL = 1;

/** Most bytes of a call's body. */
export const MAX_BODY_BYTES = 1 << 20;

export const CNI_VERBS = { ADD: "add", DEL: "del", CHECK: "check", GC: "gc", STATUS: "status" } as const;
export type CniVerb = (typeof CNI_VERBS)[keyof typeof CNI_VERBS];

/** Milliseconds after which the plugin wants no answer any more. */
export const DEADLINE_HEADER = "tortie-deadline-ms";
/** Number of the endpoint, in an answer. */
export const ENDPOINT_HEADER = "tortie-endpoint";
/** How many warnings the agent's log has of this call, in an answer. */
export const WARNINGS_HEADER = "tortie-warnings";

/** The sandbox, opened by the plugin before the call and held open until the answer. */
interface SandboxOfCall {
  /** CNI_NETNS as it came. */
  readonly path: string;
  /** What the path led to; absent, with `fd`, where a DEL found nothing there. */
  readonly dev?: number;
  readonly ino?: number;
  /** Number of the descriptor in the plugin's process. */
  readonly fd?: number;
}

export interface CniCallBody {
  readonly protocol: number;
  /** Version of the executable. */
  readonly plugin: string;
  /** Empty for GC. */
  readonly containerId: string;
  /** Empty for GC. */
  readonly ifname: string;
  /** CNI_ARGS as it came. */
  readonly args?: string;
  /** CNI_PATH as it came. */
  readonly path?: string;
  readonly netns?: SandboxOfCall;
  /** The network configuration: standard input, unchanged. */
  readonly stdin: string;
  /** CNI_PATH, split. */
  readonly pluginDirs?: readonly string[];
  /**
   * true: `ipam.type` leads to the plugin's own file, which would serve it in its own process, and so does the agent. Absent otherwise. The
   * agent cannot know: its executable is another copy, of its image for instance.
   */
  readonly ownIpam?: boolean;
  /**
   * The plugin's environment without the variables that have a member above: settings may come from it (C§1.4: CALICO_*, FELIX_*, proxies),
   * and delegates inherit it. An agent's own environment must not decide anything.
   */
  readonly env?: Readonly<Record<string, string>>;
}
