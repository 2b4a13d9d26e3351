/** Keeps what the checks of a host look at, each read once and only when the first check asks for it. Changes nothing. */
import { basename } from "node:path";
import { hasFelixChains } from "../../dataplane/linux/host-facts.ts";
import { HostSockets } from "../../dataplane/netlink/host-sockets.ts";
import { type FoundChain, listChains } from "../../dataplane/nftables/others.ts";
import { type Link, listLinks } from "../../dataplane/rtnetlink/link.ts";
import { type KernelRoute, listRoutes } from "../../dataplane/rtnetlink/route.ts";
import { type FoundAgent, findAgent, type RunDirectory, runDirectoryOf } from "../../handover/run-directory.ts";
import { conflistsIn } from "../../installer/lists.ts";
import { createIpamHost } from "../../ipam-plugin/host.ts";
import { ipamFindings, type Finding as Shortage } from "../../ipam-plugin/status.ts";
import { bitsOf, type Family } from "../../lib/addresses/address.ts";
import type { Environment } from "../../lib/cni/protocol.ts";
import { type Conflist, readConflist } from "../../lib/cni/runtime/conflist.ts";
import { configOfConflist } from "../../lib/config/conflist.ts";
import { chooseDatastore, isKubernetesConfigured } from "../../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../../lib/config/decode.ts";
import { nodeName } from "../../lib/config/node-name.ts";
import type { Datastore } from "../../lib/datastore/datastore.ts";
import { openDatastore } from "../../lib/datastore/open.ts";
import { namingFault, TortieError } from "../../lib/errors/errors.ts";
import type { ApiConfig } from "../../lib/kubernetes/config/api-config.ts";
import { resolveApiConfig } from "../../lib/kubernetes/config/resolve.ts";
import { isThere } from "../../lib/system/files.ts";
import { once } from "../../lib/system/waiting.ts";
import { guardedPrefixes } from "../../lib/workload/names.ts";
import { NotLooked } from "../checks.ts";
import type { PolicyFacts } from "../policy.ts";
import { skipped } from "../report.ts";

export interface AgentCheck {
  readonly name: string;
  readonly state: "ok" | "warning" | "failure" | "disabled";
  readonly message: string;
  readonly next?: string;
}

/** Has what an agent answers. */
export interface AgentView {
  readonly version: string;
  readonly phase: string;
  readonly isReady: boolean;
  readonly checks: readonly AgentCheck[];
  readonly waits: readonly { readonly what: string; readonly since: string }[];
  readonly findings: readonly string[];
  readonly endpoints: readonly { readonly hostInterface: string; readonly addresses: readonly string[] }[];
  readonly policy: Pick<PolicyFacts, "isEnforced" | "differences" | "unread" | "unenforced">;
}

export interface HostOptions {
  /** Of this program. */
  readonly version: string;
  /** The host's name, for the report. */
  readonly host: string;
  readonly env: Environment;
  /** Where the host's own files begin. */
  readonly root: string;
  /** Directory of network configurations. */
  readonly netDir: string;
  /** Folders of plugins, joined by ":". */
  readonly binDir: string;
  /** The agent's. */
  readonly socket: string;
  /** Asks the agent. @throws TortieError `agent-unreachable`, and what else keeps it from answering */
  readonly askAgent: () => Promise<AgentView>;
}

/** Has what is known of one agent. */
export interface SeenAgent {
  /** `undefined`: no agent of this boot has ever been there. */
  readonly file: FoundAgent | undefined;
  /** Its answers, or why it did not answer. */
  readonly view: AgentView | Error;
}

/** Has the datastore that our list names. */
export interface OwnStore extends OwnList {
  readonly datastore: Datastore;
  /** Collects what lists had to leave out. */
  readonly unreadable: Set<string>;
}

export class HostView implements AsyncDisposable {
  readonly options: HostOptions;
  readonly run: RunDirectory;
  readonly #opened = new AsyncDisposableStack();
  /** Serves nftables and rtnetlink of the namespace that this process is in. */
  readonly sockets = this.#opened.use(new HostSockets());

  constructor(options: HostOptions) {
    this.options = options;
    this.run = runDirectoryOf(options.socket);
  }

  /** Lists the network configurations in the order in which runtimes take them: the first one counts. */
  readonly lists = once((): readonly string[] => conflistsIn(this.options.netDir));

  /** Returns the first list that is ours; `undefined` without one. @throws TortieError `privilege-missing` */
  readonly ownList = once((): OwnList | undefined => {
    for (const file of this.lists()) {
      const own = ownListIn(file);
      if (own !== undefined) return own;
    }
    return undefined;
  });

  readonly agent = once(async (): Promise<SeenAgent> => {
    const file = findAgent(this.run.agentFile);
    const view = await this.options.askAgent().catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))));
    return { file, view };
  });

  /** @throws NetlinkError */
  readonly links = once((): readonly Link[] => listLinks(this.sockets.route));

  /** Lists the routes of the main table, of both families. @throws NetlinkError */
  readonly routes = once((): readonly KernelRoute[] => [...listRoutes(this.sockets.route, 4), ...listRoutes(this.sockets.route, 6)]);

  /** Lists the chains of the packet filter, whoever made them. @throws NetlinkError */
  readonly chains = once((): readonly FoundChain[] => listChains(this.sockets.netfilter));

  /** @throws NetlinkError */
  readonly hasFelix = once((): boolean => hasFelixChains(this.sockets));

  /** Lists the host ends of attachments, whoever made them. */
  readonly hostEnds = once((): readonly Link[] => {
    const prefixes = guardedPrefixes(this.options.env.FELIX_INTERFACEPREFIX);
    return this.links().filter(({ name, kind }) => PAIRS.includes(kind) && prefixes.some((prefix) => name.startsWith(prefix)));
  });

  /** Says which families pods of this host have addresses of. */
  readonly podFamilies = once((): ReadonlySet<Family> => {
    const ends = new Set(this.hostEnds().map(({ index }) => index));
    return familiesOf(this.routes().filter(({ index }) => ends.has(index)));
  });

  /** Says where our list's API server is; `undefined` where it needs none. @throws TortieError */
  readonly server = once((): ApiConfig | undefined => {
    const own = this.ownList();
    if (own === undefined || !isKubernetesConfigured(own.config, this.options.env)) return undefined;
    return resolveApiConfig(own.config, this.options.env);
  });

  /** @throws NotLooked where there is none to open, TortieError */
  readonly store = once(async (): Promise<OwnStore> => {
    const own = this.ownList();
    if (own === undefined) throw new NotLooked(skipped("datastore", "no list of this host names one"));
    const { env } = this.options;
    const { datastorePath } = own.config;
    // Looking must not create the file; the first ADD does.
    if (chooseDatastore(own.config, env) === "local" && !isThere(datastorePath)) {
      throw new NotLooked(skipped(datastorePath, "it is not there yet: the first pod makes it"));
    }
    const unreadable = new Set<string>();
    const datastore = await openDatastore(own.config, env, ({ message }) => void unreadable.add(message));
    return { ...own, datastore: this.#opened.use(datastore), unreadable };
  });

  /** Says what keeps the next pod from an address; `undefined`: addresses come from somebody else's plugin. @throws as `store` */
  readonly shortages = once(async (): Promise<readonly Shortage[] | undefined> => {
    const { config, datastore } = await this.store();
    if (!["tortie-ipam", "calico-ipam"].includes(config.ipam.type)) return undefined;
    return ipamFindings({ config, nodeName: nodeName(config) }, createIpamHost({ datastore, log: { error() {} } }));
  });

  [Symbol.asyncDispose](): Promise<void> {
    return this.#opened.disposeAsync();
  }
}

const PAIRS: readonly string[] = ["veth", "netkit"];

export interface OwnList {
  readonly file: string;
  readonly list: Conflist;
  readonly config: NetworkConfig;
}

function ownListIn(file: string): OwnList | undefined {
  try {
    return { file, list: readConflist(file), config: configOfConflist(file) };
  } catch (error) {
    const named = namingFault(error);
    // Whose list it is cannot be said.
    if (named instanceof TortieError && named.word === "privilege-missing") throw named;
    return undefined;
  }
}

/** Says of which families routes lead to single addresses: the kernel makes other routes of its own. */
export function familiesOf(routes: readonly KernelRoute[]): ReadonlySet<Family> {
  return new Set(routes.flatMap(({ destination: { address, length } }) => (length === bitsOf(address.family) ? [address.family] : [])));
}

/** Names a list in a message. */
export function nameOf(file: string): string {
  return basename(file);
}
