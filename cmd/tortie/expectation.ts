/** Looking ahead: as soon as a pod is known to want any address, this process's IPAM plugin asks for what it will choose from. */
import { expectAdd, type View } from "../../ipam-plugin/ipam-plugin.ts";
import type { CniRequest } from "../../lib/cni/protocol.ts";
import type { NetworkConfig } from "../../lib/config/network-config.ts";
import { type IpamPlugin, isInProcess } from "./ipam.ts";
import type { Services } from "./services.ts";

export class Expectation {
  readonly #plugin: IpamPlugin;
  readonly #request: CniRequest;
  readonly #config: NetworkConfig;
  readonly #services: Services;
  #view: Promise<View | undefined> | undefined;

  constructor(plugin: IpamPlugin, request: CniRequest, config: NetworkConfig, services: Services) {
    this.#plugin = plugin;
    this.#request = request;
    this.#config = config;
    this.#services = services;
  }

  /** What has been asked for; `undefined` before `begin`, and where nothing can be. */
  async view(): Promise<View | undefined> {
    return this.#view;
  }

  /** @param ready of a cluster that is not, nothing is asked */
  begin(ready: Promise<void>): void {
    if (isInProcess(this.#plugin, this.#config)) this.#view ??= this.#ask(ready);
  }

  /** What fails here fails again when the addresses are assigned. */
  async #ask(ready: Promise<void>): Promise<View | undefined> {
    try {
      await ready;
      return expectAdd(this.#request, this.#config, await this.#services.ipamServices(this.#config));
    } catch {
      return undefined;
    }
  }
}
