/**
 * Runs a connectivity test on one host without a cluster: its pods are network namespaces that the plugins of a list attach, as a runtime
 * has it done.
 */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { hostname, networkInterfaces } from "node:os";
import { parseResult } from "../../lib/cni/result.ts";
import { ResultCache } from "../../lib/cni/runtime/cache.ts";
import { add, del, type Runtime } from "../../lib/cni/runtime/chain.ts";
import { type Conflist, readConflist } from "../../lib/cni/runtime/conflist.ts";
import { type Attachment, type CapabilityOptions, capabilityArgs } from "../../lib/cni/runtime/plugin-call.ts";
import { pluginRunner, versionAsker } from "../../lib/cni/runtime/run-plugin.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { ifReadable } from "../../lib/system/files.ts";
import { type CheckResult, failed, result, well } from "../report.ts";
import { probeIn, type Sandboxed, startSandboxed } from "./children.ts";
import { forget, leftBehind, remember } from "./left-over.ts";
import { answerAll } from "./probe/ask.ts";
import { serveProbes } from "./probe/serve.ts";
import type { ProbeReply, ProbeRequest } from "./question.ts";
import { type Check, type Member, made, type Target, type World } from "./world.ts";

export interface HostOptions {
  readonly conflist: string;
  /** Folders of plugins, joined by ":". */
  readonly pluginPath: string;
  /** Where results of attachments are kept. */
  readonly cacheDir: string;
  readonly outside: readonly Target[];
  readonly nameServer: Target | undefined;
  readonly lookedUp: string | undefined;
}

/** Bits per second, and bits of its burst: a transfer of a second and a half is slowed down. */
export const LIMIT = 8_000_000;
const BURST = 800_000;
const PLUGIN_SECONDS = 60;
/** Between the ports that services have and those of connections (net.ipv4.ip_local_port_range). */
const FIRST_PORT = 20_000;
const PORTS = 10_000;
const NO_CAPABILITIES: CapabilityOptions = { json: undefined, portMappings: [], bandwidth: undefined, mac: undefined, ips: [] };

/** Returns the ports of one test, which no other one has but by chance. */
export function somePorts(): World["ports"] {
  const serve = FIRST_PORT + 3 * Math.floor(Math.random() * (PORTS / 3));
  return { serve, closed: serve + 1, host: serve + 2 };
}

/**
 * Makes the pods. What a killed test has left is removed first.
 * @throws what keeps a pod from being made, after what was made is gone again
 */
export async function openHostWorld(options: HostOptions, signal: AbortSignal): Promise<World> {
  return made(new HostWorld(options, readConflist(options.conflist), signal));
}

/** Removes what killed tests have left on this host. @returns one result for each of them */
export async function cleanHost(cacheDir: string, pluginPath: string): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = [];
  for (const { pid, conflist, containers } of leftBehind(cacheDir)) {
    try {
      const list = readConflist(conflist);
      for (const container of containers) await del(runtimeOf(pluginPath, cacheDir), list, attachmentOf(container, ""));
      forget(cacheDir, pid);
      const message = `${containers.length} pods that a killed test has left are removed`;
      results.push(result("pods", "left-over", well(`test ${pid}`, message)));
    } catch (error) {
      const next = `remove what keeps DEL from working, then: tortiectl connectivity clean; or tortiectl cni gc ${conflist}`;
      const message = `pods of a killed test cannot be removed: ${messageOf(error)}`;
      results.push(result("pods", "left-over", failed(`test ${pid}`, message, { next })));
    }
  }
  return results;
}

function runtimeOf(pluginPath: string, cacheDir: string): Runtime {
  return {
    run: pluginRunner({ pluginPath, timeoutSeconds: PLUGIN_SECONDS, env: process.env }, () => undefined),
    versionsOf: versionAsker({ pluginPath }),
    cache: new ResultCache(cacheDir),
  };
}

function attachmentOf(containerId: string, netns: string): Attachment {
  return { containerId, netns, interfaceName: "eth0", args: undefined, capabilityArgs: undefined };
}

interface HostPod {
  readonly containerId: string;
  readonly sandbox: Sandboxed;
}

class HostWorld implements World {
  readonly nodes = [hostname()];
  readonly members: Member[] = [];
  readonly ports = somePorts();
  readonly outside: readonly Target[];
  readonly lookup: World["lookup"];
  readonly lacks: World["lacks"];
  readonly limit = { bitsPerSecond: LIMIT, isPromised: true };
  readonly isPolicyPromised = false;
  readonly found: CheckResult[] = [];
  readonly #options: HostOptions;
  readonly #list: Conflist;
  readonly #runtime: Runtime;
  readonly #signal: AbortSignal;
  readonly #pods: HostPod[] = [];
  readonly #attached: string[] = [];
  #server: { close(): void } | undefined;
  #client: Sandboxed | undefined;

  constructor(options: HostOptions, list: Conflist, signal: AbortSignal) {
    this.#options = options;
    this.#list = list;
    this.#signal = signal;
    this.#runtime = runtimeOf(options.pluginPath, options.cacheDir);
    const servers = nameServersOfHost();
    const server = options.nameServer ?? servers[0];
    this.outside = options.outside.length > 0 ? options.outside : servers;
    this.lookup = { server, name: options.lookedUp ?? "connectivity.invalid" };
    this.lacks = lacksOf(list, this.outside, server);
  }

  async make(): Promise<void> {
    const { pluginPath, cacheDir } = this.#options;
    this.found.push(...(await cleanHost(cacheDir, pluginPath)));
    const [node = ""] = this.nodes;
    const { serve, closed, host } = this.ports;
    const name = `host ${node}`;
    this.#server = await serveProbes(name, [serve]);
    this.members.push({ role: "host", name, node, addresses: addressesOfHost() });
    await this.#addPod("web", [serve, closed], { portMappings: [`${host}:${serve}`] });
    const rate = `ingress=${LIMIT},egress=${LIMIT},ingressBurst=${BURST},egressBurst=${BURST}`;
    await this.#addPod("limited", [serve], { bandwidth: rate });
    this.#client = await this.#addPod("client", [serve], {});
  }

  ask(_node: string, from: "pod" | "host", request: ProbeRequest): Promise<ProbeReply> {
    if (from === "host") return answerAll(request);
    if (this.#client === undefined) throw new Error("there is no pod to ask from");
    return probeIn(this.#client.netns, request, this.#signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server?.close();
    const failures: string[] = [];
    for (const containerId of this.#attached.toReversed()) {
      const netns = this.#pods.find((pod) => pod.containerId === containerId)?.sandbox.netns ?? "";
      await del(this.#runtime, this.#list, attachmentOf(containerId, netns)).catch((error: unknown) => failures.push(messageOf(error)));
    }
    for (const { sandbox } of this.#pods) await sandbox.end();
    if (failures.length > 0)
      throw new Error(`pods of the test were not removed; tortiectl connectivity clean tries again: ${failures.join("; ")}`);
    forget(this.#options.cacheDir);
  }

  async #addPod(role: "web" | "limited" | "client", ports: readonly number[], wishes: Partial<CapabilityOptions>): Promise<Sandboxed> {
    this.#signal.throwIfAborted();
    const [node = ""] = this.nodes;
    const name = `${role} on ${node}`;
    const sandbox = await startSandboxed(name, ports);
    const containerId = randomBytes(32).toString("hex");
    this.#pods.push({ containerId, sandbox });
    this.#attached.push(containerId);
    remember(this.#options.cacheDir, { conflist: this.#list.file, containers: this.#attached });
    const attachment = { ...attachmentOf(containerId, sandbox.netns), capabilityArgs: capabilityArgs({ ...NO_CAPABILITIES, ...wishes }) };
    const { ips, interfaces } = parseResult(await add(this.#runtime, this.#list, attachment), this.#list.cniVersion);
    const hostEnd = interfaces.find((link) => (link.sandbox ?? "") === "")?.name;
    const addresses = ips.map(({ address }) => address.replace(/\/\d+$/, ""));
    if (role !== "client") this.members.push({ role, name, node, addresses, hostEnd });
    return sandbox;
  }
}

function lacksOf(list: Conflist, outside: readonly Target[], server: Target | undefined): Partial<Record<Check, string>> {
  const hasCapability = (name: string) => list.plugins.some(({ capabilities }) => capabilities.has(name));
  const no = (capability: string) => `no plugin of ${list.file} has the capability ${capability}`;
  return {
    "other-node": "this is one host; with --kubeconfig the test has pods on several nodes",
    policy: "NetworkPolicy objects are in a cluster: give its --kubeconfig",
    ...(!hasCapability("portMappings") && { "host-port": no("portMappings") }),
    ...(!hasCapability("bandwidth") && { bandwidth: no("bandwidth") }),
    ...(outside.length === 0 && { egress: "nothing outside is known: name something with --egress ADDRESS:PORT" }),
    ...(server === undefined && {
      dns: "the host's name server is on its loopback, which no pod reaches: name another with --dns-server ADDRESS",
    }),
  };
}

/** Name servers that a pod could reach. */
function nameServersOfHost(): readonly Target[] {
  const text = ifReadable(() => readFileSync("/etc/resolv.conf", "utf8")) ?? "";
  const servers = [...text.matchAll(/^nameserver\s+([0-9a-fA-F.:]+)\s*$/gm)].flatMap(([, address = ""]) => address);
  return servers.filter((address) => !/^(?:127\.|::1$)/.test(address)).map((address) => ({ address, port: 53 }));
}

/** One address of each family that others could use: not of a pod's link, and not a link's own. */
function addressesOfHost(): readonly string[] {
  const all = Object.entries(networkInterfaces()).flatMap(([name, addresses = []]) =>
    /^(?:cali|lxc|vxlan|docker|cni|br-)/.test(name) ? [] : addresses,
  );
  const usable = all.filter(({ internal, address }) => !internal && !/^(?:fe80:|169\.254\.)/i.test(address));
  return ["IPv4", "IPv6"].flatMap((family) => usable.find((one) => one.family === family)?.address ?? []);
}
