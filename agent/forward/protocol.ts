/**
 * The call of a plugin as records and the delete queue keep it, and as the agent hands it on (A§11.3). Over the socket it goes as
 * `call-frame.ts` has it.
 */

/** Version of the members below. */
export const PROTOCOL = 1;

/** Most bytes of a call behind its header, and of a request to the API. */
export const MAX_BODY_BYTES = 1 << 20;

export const CNI_VERBS = { ADD: "add", DEL: "del", CHECK: "check", GC: "gc", STATUS: "status" } as const;
export type CniVerb = (typeof CNI_VERBS)[keyof typeof CNI_VERBS];

/** The sandbox, opened by the plugin before the call and held open until the answer. */
interface SandboxOfCall {
  /** CNI_NETNS as it came. */
  readonly path: string;
  /** What the path led to; absent, with `fd`, where a DEL found nothing there. */
  readonly dev?: string;
  readonly ino?: string;
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
