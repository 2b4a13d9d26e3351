/** Runs `tortiectl ui`: opens the page's server, says its address, and stays until a signal ends it. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { messageOf, TortieError } from "../../../lib/errors/errors.ts";
import { VERSION } from "../../output.ts";
import type { Terminal } from "../terminal.ts";
import type { Sources } from "./questions.ts";

export interface UiOptions {
  readonly socket: string;
  readonly datastore: string | undefined;
  readonly conf: string | undefined;
  readonly kubeconfig: string | undefined;
  readonly port: number;
  readonly json: boolean;
}

/** Runs a command line of `tortiectl`, without the program's name. */
export type Tortiectl = (argv: readonly string[], terminal: Terminal) => Promise<number>;

const TOKEN_BYTES = 24;
const LARGEST_PORT = 65_535;

/** @returns exit status @throws TortieError `option-invalid` */
export async function serveUi(options: UiOptions, terminal: Terminal, tortiectl: Tortiectl): Promise<number> {
  const { port, json } = options;
  if (!Number.isInteger(port) || port < 0 || port > LARGEST_PORT)
    throw new TortieError("option-invalid", `--port wants 0 to ${LARGEST_PORT}`);
  // The executable is compiled for calls that are over before machine code would pay for its making (scripts/build). This process lives on.
  Bun.unsafe.setJITPolicy(1);
  const [{ ASSETS }, { servePage }, { kubectlTortie }] = await Promise.all([
    import("./assets.ts"),
    import("./server.ts"),
    import("../kubectl.ts"),
  ]);
  const sources = sourcesOf(options);
  const ending = Promise.race(["SIGINT", "SIGTERM"].map((signal) => new Promise((done) => void process.once(signal, done))));
  const page = await servePage({
    token: randomBytes(TOKEN_BYTES).toString("base64url"),
    port,
    about: { version: VERSION, host: hostname(), scope: sources.scope },
    assets: ASSETS,
    sources,
    run: ({ program, words }, on) => (program === "tortiectl" ? tortiectl : kubectlTortie)(words, on),
  }).catch((error: unknown) => {
    throw new TortieError("option-invalid", `port ${port} of 127.0.0.1 cannot be opened: ${messageOf(error)}`, { cause: error });
  });
  if (json) terminal.out(JSON.stringify({ url: page.url }));
  else {
    terminal.out(page.url);
    terminal.err("open this address in a browser of this machine; whoever knows it can read what it shows. Ctrl-C ends it");
  }
  await ending;
  await page.stop();
  return 0;
}

function sourcesOf({ socket, datastore, conf, kubeconfig }: UiOptions): Sources {
  if (kubeconfig !== undefined) return { scope: "cluster", kubeconfig };
  const option = (name: string, value: string | undefined) => (value === undefined ? [] : [`--${name}=${value}`]);
  return { scope: "node", agent: [`--socket=${socket}`], store: [...option("datastore", datastore), ...option("conf", conf)] };
}
