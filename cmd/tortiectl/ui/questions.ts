/** Names the command of `tortiectl` that answers each question of the page, and judges what the page may put into its line. */
import { TortieError } from "../../../lib/errors/errors.ts";
import type { QuestionName, Questions } from "../../../ui/contract.ts";

/** What the page is about: a node, by its agent and its datastore, or a whole cluster. */
export type Sources =
  | {
      readonly scope: "node";
      /** Options that lead to the agent, such as --socket. */
      readonly agent: readonly string[];
      /** Options that lead to the datastore; empty: the default. */
      readonly store: readonly string[];
    }
  | { readonly scope: "cluster"; readonly kubeconfig: string };

/** Is a command line, and the program that runs it. */
export interface Line {
  readonly program: "tortiectl" | "kubectl tortie";
  readonly words: readonly string[];
}

/** Lists what each question is asked with. */
const PARAMS: { readonly [N in QuestionName]: readonly (keyof Questions[N]["params"] & string)[] } = {
  pools: [],
  endpoints: [],
  pods: [],
  status: [],
  endpoint: ["id"],
  address: ["ip"],
  explain: ["kind", "name"],
  policies: [],
  reach: ["from", "to", "port"],
  drops: ["endpoint"],
  routes: [],
  doctor: [],
};

type Params = Readonly<Record<string, string>>;

/** Asks the commands of this node. @returns `undefined` for what only a cluster knows */
function wordsOfNode(
  name: QuestionName,
  { id = "", ip = "", kind = "", name: subject = "", ...pair }: Params,
  agent: readonly string[],
  store: readonly string[],
) {
  const { from = "", to = "", port = "", endpoint = "" } = pair;
  const words: Readonly<Partial<Record<QuestionName, readonly string[]>>> = {
    pools: ["ipam", "show", "--blocks", ...store],
    address: ["ipam", "show", "--ip", ip, ...store],
    endpoints: ["node", "endpoints", ...agent],
    status: ["node", "status", ...agent],
    endpoint: ["node", "endpoint", id, ...agent],
    explain: ["explain", kind, subject, ...agent, ...store],
    policies: ["policy", "list", ...agent],
    reach: ["policy", "explain", from, to, port, ...agent],
    drops: ["policy", "drops", endpoint, ...agent],
    routes: ["routes", "show"],
    doctor: ["doctor", ...agent],
  };
  return words[name];
}

/** Asks the commands of a whole cluster. @returns `undefined` for what only a node knows */
function wordsOfCluster(name: QuestionName, { ip = "", kind = "", name: subject = "" }: Params, kubeconfig: string) {
  const options = [`--kubeconfig=${kubeconfig}`];
  const words: Readonly<Partial<Record<QuestionName, readonly string[]>>> = {
    pools: ["ipam", "show", "--blocks", ...options],
    address: ["ipam", "show", "--ip", ip, ...options],
    pods: ["endpoints", "--all-namespaces", ...options],
    explain: ["explain", kind, subject, ...options],
    doctor: ["doctor", ...options],
  };
  return words[name];
}

const MOST_OF_A_NAME = 600;
/** Matches what stays one word of a command line: no option, and nothing that ends a line. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: that is what is refused
const WORD = /^[^-\u0000-\u001f\u007f][^\u0000-\u001f\u007f]*$/;

/**
 * Writes the command line of a question, without the program's name.
 * @throws TortieError `operation-unknown`, `call-invalid`
 */
export function lineOf(name: string, given: Readonly<Record<string, unknown>>, sources: Sources): Line {
  if (!isQuestion(name)) throw unknown(name);
  const params = Object.fromEntries(PARAMS[name].map((key) => [key, wordOf(key, given[key])]));
  const words =
    sources.scope === "node" ? wordsOfNode(name, params, sources.agent, sources.store) : wordsOfCluster(name, params, sources.kubeconfig);
  if (words === undefined) throw unknown(name);
  return { program: sources.scope === "node" ? "tortiectl" : "kubectl tortie", words: [...words, "--json"] };
}

function unknown(name: string): TortieError {
  return new TortieError("operation-unknown", `there is no question ${JSON.stringify(name.slice(0, 100))} here`);
}

function isQuestion(name: string): name is QuestionName {
  return Object.hasOwn(PARAMS, name);
}

function wordOf(key: string, value: unknown): string {
  if (typeof value === "string" && value.length <= MOST_OF_A_NAME && WORD.test(value)) return value;
  throw new TortieError("call-invalid", `${key} is no name: text without control characters that does not begin with "-" is wanted`);
}

/** Writes a command line as a shell reads it. */
export function shellText({ program, words }: Line): string {
  const quoted = words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`));
  return [program, ...quoted].join(" ");
}
