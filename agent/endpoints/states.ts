/** Says which states an endpoint has and which may follow which: one table (A§5.2, A§5.3). */

/** The states in the order of an endpoint's life. The words are the API's. */
export const STATES = [
  /** Just made, and not visible yet. */
  "none",
  /** The attachment is journalled and nothing is visible yet (A§11.4). */
  "creating",
  /** The links are made, the ADD is not committed. Mending is allowed and leaves the state. */
  "waiting-for-identity",
  /** Nothing pending. */
  "ready",
  /** Mending is asked for. */
  "waiting-to-regenerate",
  "regenerating",
  /** Read back after a restart, not yet mended. */
  "restoring",
  "disconnecting",
  "disconnected",
] as const;
export type State = (typeof STATES)[number];

/** Who asks: the mending of the endpoint while it runs, or any other code. */
export type Actor = "anybody" | "builder";

/** `overtaken`: refused without an entry in the log, because what was wanted has been asked for already, or is out of date. */
export type Verdict = "allowed" | "overtaken" | "refused";

type Rule = Actor | "overtaken" | "overtaken-for-builder";

const TRANSITIONS: Readonly<Record<State, Partial<Readonly<Record<State, Rule>>>>> = {
  none: { creating: "anybody", restoring: "anybody" },
  creating: { "waiting-for-identity": "anybody", disconnecting: "anybody" },
  "waiting-for-identity": { ready: "anybody", disconnecting: "anybody" },
  ready: { "waiting-to-regenerate": "anybody", disconnecting: "anybody" },
  "waiting-to-regenerate": {
    // The run that just ended was overtaken.
    ready: "overtaken-for-builder",
    "waiting-to-regenerate": "overtaken",
    regenerating: "builder",
    disconnecting: "anybody",
  },
  regenerating: { ready: "builder", "waiting-to-regenerate": "anybody", disconnecting: "anybody" },
  restoring: { regenerating: "builder", disconnecting: "anybody" },
  disconnecting: { disconnected: "anybody" },
  disconnected: {},
};

/** Whether an endpoint in state `from` may become `to`. */
export function judgeTransition(from: State, to: State, actor: Actor): Verdict {
  const rule = TRANSITIONS[from][to];
  if (rule === "overtaken") return "overtaken";
  if (rule === "overtaken-for-builder") return actor === "builder" ? "overtaken" : "refused";
  return rule === "anybody" || (rule === "builder" && actor === "builder") ? "allowed" : "refused";
}

/** Whether the link of an endpoint in this state is mended at all. */
export function allowsBuild(state: State): boolean {
  return ["waiting-for-identity", "ready", "waiting-to-regenerate", "regenerating", "restoring"].includes(state);
}

/** Whether the endpoint is being removed, or has been. */
export function isEnded(state: State): boolean {
  return state === "disconnecting" || state === "disconnected";
}
