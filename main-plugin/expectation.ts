/** Looking ahead: as soon as a pod is known to want any address, this process's IPAM plugin asks for what it will choose from. */
import { type ExpectedAdd, expectAdd, type View } from "../ipam-plugin/ipam-plugin.ts";
import type { CniRequest } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { type IpamPlugin, isInProcess } from "./find-ipam.ts";
import type { Services } from "./services.ts";

export class Expectation {
  readonly #plugin: IpamPlugin;
  readonly #request: CniRequest;
  readonly #config: NetworkConfig;
  readonly #services: Services;
  #expected: Promise<ExpectedAdd> | undefined;
  #view: Promise<View | undefined> | undefined;

  constructor(plugin: IpamPlugin, request: CniRequest, config: NetworkConfig, services: Services) {
    this.#plugin = plugin;
    this.#request = request;
    this.#config = config;
    this.#services = services;
  }

  /** Makes ready what can be before anybody has answered. */
  prepare(): void {
    if (!isInProcess(this.#plugin, this.#config)) return;
    this.#expected ??= this.#expect();
    this.#expected.catch(() => {});
  }

  /** What has been asked for; `undefined` before `begin`, and where nothing can be. */
  async view(): Promise<View | undefined> {
    return this.#view;
  }

  /** @param ready of a cluster that is not, nothing is asked */
  begin(ready: Promise<void>): void {
    this.prepare();
    if (this.#expected !== undefined) this.#view ??= ask(this.#expected, ready);
  }

  async #expect(): Promise<ExpectedAdd> {
    return expectAdd(this.#request, this.#config, await this.#services.ipamServices());
  }
}

/** What fails here fails again when the addresses are assigned. */
async function ask(expected: Promise<ExpectedAdd>, ready: Promise<void>): Promise<View | undefined> {
  try {
    await ready;
    const { view, ask } = await expected;
    ask();
    return view;
  } catch {
    return undefined;
  }
}
