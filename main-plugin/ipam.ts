/**
 * Addresses come from an IPAM plugin (C§2.5), which may be any executable of CNI_PATH. When it is the very file that is running, the
 * call is served in this process: same input, same outcome, same errors, without a second process start and a second datastore.
 */

import { HandleExistsError, ipamAdd, ipamRun } from "../ipam-plugin/ipam-plugin.ts";
import { type DelegateCall, delegateAdd, runDelegate } from "../lib/cni/delegate.ts";
import type { Environment } from "../lib/cni/environment.ts";
import type { CniCommand, CniRequest, CniResult } from "../lib/cni/protocol.ts";
import { exportedSettings } from "../lib/config/exported-settings.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import type { Undo } from "../lib/system/undo.ts";
import { findIpam, type IpamPlugin, isInProcess } from "./find-ipam.ts";
import type { Services } from "./services.ts";

/** The IPAM plugin of one request. */
export interface Ipam {
  /** Tortie's own plugin, by either name: it returns routes on purpose, and none for a migration target (C§2.3 S9). */
  readonly isOurs: boolean;
  /**
   * Runs ADD. What it took is given back through `undo` when a later step fails; a failed ADD is followed by the delegate's DEL,
   * as the specification advises, unless `isRepeated` says that the container still uses what an earlier ADD got.
   */
  add(undo: Undo, isRepeated: boolean): Promise<CniResult>;
  /**
   * As `add`, for a container that should hold nothing yet. `holds-addresses`: it does, and this call took nothing. A plugin that
   * cannot tell adds as ever.
   */
  addFirst(undo: Undo): Promise<CniResult | typeof HOLDS_ADDRESSES>;
  /** DEL, CHECK, STATUS or GC: nothing to return but an error. */
  run(command: OtherCommand): Promise<void>;
}

export const HOLDS_ADDRESSES = "holds-addresses";

type OtherCommand = Exclude<CniCommand, "ADD" | "VERSION">;

/** Time that a delegate may take: calico-ipam's own budget of 90 s, after waiting for the node's lock (I§1.8), and some to start. */
const DELEGATE_TIME_LIMIT_MS = 240_000;

/**
 * @param request what the plugin gets: its standard input and its CNI_ARGS may be edited, and `config` is what that input says
 */
export function connectIpam(plugin: IpamPlugin, request: CniRequest, config: NetworkConfig, services: Services): Ipam {
  if (isInProcess(plugin, config)) return inProcess(request, config, services);
  const env = { ...services.env, ...exportedSettings(config, services.datastoreType) };
  return new DelegatedIpam(plugin, request, env, services);
}

/**
 * @param stdin what the plugin gets on standard input: the request's own bytes, or the edited configuration
 * @throws TortieError as `findIpam`
 */
export function chooseIpam(request: CniRequest, config: NetworkConfig, stdin: Uint8Array, services: Services): Ipam {
  return connectIpam(findIpam(request, config), { ...request, stdin }, config, services);
}

class DelegatedIpam implements Ipam {
  readonly isOurs: boolean;
  readonly #executable: string;
  readonly #request: CniRequest;
  readonly #env: Environment;
  readonly #services: Services;

  constructor({ executable, isOurs }: IpamPlugin, request: CniRequest, env: Environment, services: Services) {
    this.#executable = executable;
    this.isOurs = isOurs;
    this.#request = request;
    this.#env = env;
    this.#services = services;
  }

  async add(undo: Undo, isRepeated: boolean): Promise<CniResult> {
    // Registered first: a plugin that fails or dies half-way may have kept an address.
    if (!isRepeated) undo.defer(() => this.#giveBack());
    return delegateAdd(this.#executable, this.#call(), this.#request.cniVersion);
  }

  /** ADD of CNI does not say what was there before. */
  addFirst(undo: Undo): Promise<CniResult> {
    return this.add(undo, false);
  }

  async run(command: OtherCommand): Promise<void> {
    await runDelegate(this.#executable, { ...this.#call(), command });
  }

  async #giveBack(): Promise<void> {
    try {
      await this.run("DEL");
    } catch (error) {
      // The error that made ADD fail is the one to report; the runtime's own DEL comes as well.
      this.#services.log.error("IPAM release after a failed ADD failed as well", { error });
    }
  }

  #call(): DelegateCall {
    return { stdin: this.#request.stdin, env: this.#env, args: this.#request.args, timeoutMs: DELEGATE_TIME_LIMIT_MS };
  }
}

function inProcess(request: CniRequest, config: NetworkConfig, services: Services): Ipam {
  const add = async (undo: Undo, mustBeNew: boolean): Promise<CniResult> => {
    const { result, giveBack } = await ipamAdd(request, config, await services.ipamServices(), { mustBeNew });
    undo.defer(giveBack);
    return result;
  };
  return {
    isOurs: true,
    add: (undo) => add(undo, false),
    async addFirst(undo) {
      try {
        return await add(undo, true);
      } catch (error) {
        if (error instanceof HandleExistsError) return HOLDS_ADDRESSES;
        throw error;
      }
    },
    async run(command) {
      await ipamRun(command, request, config, await services.ipamServices());
    },
  };
}
