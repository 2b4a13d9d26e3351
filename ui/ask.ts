/** Asks the server, once or by its stream of events, and keeps what it has said. */
import { useCallback, useEffect, useState } from "preact/hooks";
import { parseExact } from "./answers.ts";
import { type About, type Answer, LIVE, type LiveName, type QuestionName, type Questions } from "./contract.ts";

type AnswerTo<N extends QuestionName> = Answer<Questions[N]["answer"]>;

/** Has what came by itself, and whether more will. */
export interface LiveState extends Readonly<Partial<{ [N in LiveName]: AnswerTo<N> }>> {
  readonly about?: About;
  readonly link: "opening" | "open" | "lost";
}

/** Follows the server's events as long as the page is there. */
export function useLive(): LiveState {
  const [state, setState] = useState<LiveState>({ link: "opening" });
  useEffect(() => {
    const source = new EventSource("events");
    source.onopen = () => setState((before) => ({ ...before, link: "open" }));
    source.onerror = () => setState((before) => ({ ...before, link: "lost" }));
    for (const name of ["about", ...LIVE.node, ...LIVE.cluster.filter((one) => one !== "pools")]) {
      source.addEventListener(name, ({ data }: MessageEvent<string>) => {
        const said = parseExact(data);
        // Draws in a task of its own: a large cluster's answer takes as long to read as to draw.
        setTimeout(() => setState((before) => ({ ...before, [name]: said })));
      });
    }
    return () => source.close();
  }, []);
  return state;
}

/** Asks one question. What goes wrong on the way is told as a command's error. */
export async function ask<N extends QuestionName>(name: N, params: Questions[N]["params"], signal?: AbortSignal): Promise<AnswerTo<N>> {
  const query = new URLSearchParams(params).toString();
  try {
    const response = await fetch(`ask/${name}${query === "" ? "" : `?${query}`}`, signal === undefined ? {} : { signal });
    const text = await response.text();
    return response.ok ? (parseExact(text) as AnswerTo<N>) : unanswered(text);
  } catch {
    return unanswered("tortiectl ui does not answer: has it ended?");
  }
}

function unanswered(message: string): Answer<never> {
  return { command: "", status: 1, notes: [], answer: { error: { word: null, message, next: null } } };
}

/** Has the answer of a question as it is asked now; the one before stays until the next has come. */
export interface Asked<N extends QuestionName> {
  readonly answer: AnswerTo<N> | undefined;
  readonly isAsking: boolean;
  again(): void;
}

/**
 * Asks when the component appears and whenever the parameters change.
 * @param params `undefined`: nothing is asked
 */
export function useAnswer<N extends QuestionName>(name: N, params: Questions[N]["params"] | undefined): Asked<N> {
  const key = params === undefined ? undefined : JSON.stringify(params);
  const [state, setState] = useState<{ readonly key?: string | undefined; readonly answer?: AnswerTo<N> }>({});
  const [round, setRound] = useState(0);
  const [isAsking, setAsking] = useState(false);
  // Runs again for another round too.
  useEffect(() => {
    if (key === undefined) return undefined;
    const gone = new AbortController();
    setAsking(true);
    void ask<N>(name, JSON.parse(key), gone.signal).then((answer) => {
      if (gone.signal.aborted) return;
      setState({ key, answer });
      setAsking(false);
    });
    return () => gone.abort();
  }, [name, key, round]);
  const again = useCallback(() => setRound((before) => before + 1), []);
  return { answer: state.key === key ? state.answer : undefined, isAsking, again };
}
