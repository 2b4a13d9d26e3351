/** The states of an endpoint and the transitions between them: one table (A§5.2, A§5.3). */

export type State =
  /** Just made, and not visible yet. */
  | "none"
  /** The attachment is journalled and nothing is visible yet (A§11.4). */
  | "creating"
  /** Labels known or awaited, no identity yet. Builds are allowed and leave the state. */
  | "waiting-for-identity"
  /** Nothing pending. */
  | "ready"
  /** A build is queued. */
  | "waiting-to-regenerate"
  | "regenerating"
  /** Read back after a restart, not yet built. */
  | "restoring"
  | "disconnecting"
  | "disconnected"
  /** Creation refused; terminal. */
  | "invalid";

/** Who asks: the builder while it holds the endpoint's build lock, or any other code. */
export type Actor = "anybody" | "builder";

/** `overtaken`: refused without an entry in the log, because what was wanted has been asked for already, or is out of date. */
export type Verdict = "allowed" | "overtaken" | "refused";

type Rule = Actor | "overtaken" | "overtaken-for-builder";

const TRANSITIONS: Readonly<Record<State, Partial<Readonly<Record<State, Rule>>>>> = {
  none: { creating: "anybody", "waiting-for-identity": "anybody", restoring: "anybody" },
  creating: { "waiting-for-identity": "anybody", disconnecting: "anybody" },
  "waiting-for-identity": { ready: "anybody", disconnecting: "anybody", invalid: "anybody" },
  ready: {
    "waiting-for-identity": "anybody",
    "waiting-to-regenerate": "anybody",
    restoring: "anybody",
    disconnecting: "anybody",
  },
  "waiting-to-regenerate": {
    "waiting-for-identity": "anybody",
    // The build that just ended was overtaken.
    ready: "overtaken-for-builder",
    "waiting-to-regenerate": "overtaken",
    regenerating: "builder",
    restoring: "anybody",
    disconnecting: "anybody",
  },
  regenerating: {
    "waiting-for-identity": "anybody",
    ready: "builder",
    "waiting-to-regenerate": "anybody",
    restoring: "anybody",
    disconnecting: "anybody",
  },
  restoring: {
    ready: "overtaken-for-builder",
    regenerating: "builder",
    restoring: "anybody",
    disconnecting: "anybody",
  },
  disconnecting: { disconnected: "anybody" },
  disconnected: {},
  invalid: {},
};

/** Whether an endpoint in state `from` may become `to`. */
export function judgeTransition(from: State, to: State, actor: Actor): Verdict {
  const rule = TRANSITIONS[from][to];
  if (rule === "overtaken") return "overtaken";
  if (rule === "overtaken-for-builder") return actor === "builder" ? "overtaken" : "refused";
  return rule === "anybody" || (rule === "builder" && actor === "builder") ? "allowed" : "refused";
}

/** Whether an endpoint in this state can be built at all. */
export function allowsBuild(state: State): boolean {
  return ["waiting-for-identity", "ready", "waiting-to-regenerate", "regenerating", "restoring"].includes(state);
}

/** Whether the endpoint is being removed, has been, or never came to be. */
export function isEnded(state: State): boolean {
  return state === "disconnecting" || state === "disconnected" || state === "invalid";
}
