/**
 * A host for the commands of a page: a network namespace with /etc, /opt and /var/lib of its own, above those of the machine, and a home. The
 * datastore of a single host is below /var/lib, and pages are tried beside each other.
 */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { BIN_DIR, Node } from "./node.ts";

const COVERED = ["/etc", "/opt", "/var/lib"];

export interface PageHostOptions {
  /** The administrator's own, at ~/.kube/config. */
  readonly kubeconfig?: string;
  /** Folders of programs besides ours and the machine's. */
  readonly programs?: readonly string[];
  /** Of the commands' environment, besides PATH and HOME. */
  readonly env?: Readonly<Record<string, string>>;
  /** Where the commands run; the project's folder when absent. */
  readonly cwd?: string;
}

export class PageHost implements AsyncDisposable {
  readonly node: Node;
  readonly home: string;
  /** On a tmpfs, as upper directories of overlays want it (the sandbox's own /run). */
  readonly #dir = mkdtempSync("/run/page-");
  readonly #options: PageHostOptions;
  readonly #owned: boolean;

  private constructor(node: Node, options: PageHostOptions, isOwned: boolean) {
    this.node = node;
    this.#options = options;
    this.#owned = isOwned;
    this.home = join(this.#dir, "home");
    mkdirSync(join(this.home, ".kube"), { recursive: true });
    if (options.kubeconfig !== undefined) symlinkSync(options.kubeconfig, join(this.home, ".kube/config"));
    for (const directory of COVERED) for (const part of ["upper", "work"]) mkdirSync(join(this.#dir, directory, part), { recursive: true });
  }

  /** @param node one that is there already; it stays the caller's */
  static async create(options: PageHostOptions = {}, node?: Node): Promise<PageHost> {
    return new PageHost(node ?? (await Node.create()), options, node === undefined);
  }

  /** The host's command line for commands of a page, for those that do not end by themselves. */
  commandLine(script: string): readonly string[] {
    return this.node.commandLine(this.#covered(script), { env: this.#env });
  }

  /** Runs commands of a page. @returns what they printed @throws Error with all that they said unless they succeed */
  async run(script: string): Promise<string> {
    const run = await this.node.run(this.#covered(script), { env: this.#env, cwd: this.#options.cwd ?? resolve() });
    if (run.exit !== 0) throw new Error(`${script}\nended with ${run.exit ?? run.signal}: ${run.stdout}${run.stderr}`);
    return run.stdout;
  }

  get #env(): Readonly<Record<string, string>> {
    const path = [BIN_DIR, ...(this.#options.programs ?? []), "/usr/sbin", "/usr/bin", "/sbin", "/bin"].join(":");
    return { PATH: path, HOME: this.home, ...this.#options.env };
  }

  /** The node runs each command in a mount namespace of its own. */
  #covered(script: string): readonly string[] {
    const mounts = COVERED.map((path) => {
      const own = join(this.#dir, path);
      return `mount -t overlay -o lowerdir=${path},upperdir=${own}/upper,workdir=${own}/work overlay ${path}`;
    });
    return ["sh", "-ec", `${mounts.join("\n")}\nexec bash -euo pipefail -c "$1"`, "page", script];
  }

  /** Names in a directory below /etc or /opt that the commands have made. */
  made(directory: string): readonly string[] {
    const [, top = "", ...below] = directory.split("/");
    try {
      return readdirSync(join(this.#dir, top, "upper", ...below)).sort();
    } catch {
      return [];
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#owned) await this.node[Symbol.asyncDispose]();
    rmSync(this.#dir, { recursive: true, force: true });
  }
}
