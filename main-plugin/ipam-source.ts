/** Calls the IPAM plugin that a configuration names (C§2.5): a program of its own, or ours in this process (find-ipam.ts). */
import type { IpamCall } from "../ipam-plugin/call.ts";
import { HandleExistsError, ipamAdd, ipamRun, printedRoutes } from "../ipam-plugin/ipam-plugin.ts";
import { type Address, formatAddress, hostPrefix, type Prefix, parsePrefix } from "../lib/addresses/address.ts";
import { type DelegateCall, delegateAdd, runDelegate } from "../lib/cni/delegate.ts";
import type { CniCommand, CniDns, CniRequest, CniRoute } from "../lib/cni/protocol.ts";
import { exportedSettings } from "../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../lib/config/decode.ts";
import { AZURE_IPAM, HOST_SCOPE } from "../lib/config/ipam-section.ts";
import { TortieError } from "../lib/errors/errors.ts";
import type { JsonObject } from "../lib/json/value.ts";
import { configWithPodPools, withPodPools } from "../lib/workload/annotations/requests.ts";
import type { AddCall, NetworkCall } from "./call.ts";
import { encode, hostLocalSection, ipamStdinForDel, withPodCidrs } from "./delegates.ts";
import type { IpamPlugin } from "./find-ipam.ts";
import type { Host } from "./host.ts";
import type { Workload } from "./workload.ts";

/** Less than the 120 s after which container runtimes kill us: a delegate that hangs must be named in an error. */
const DELEGATE_TIME_LIMIT_MS = 110_000;

/** What the plugin gets: its standard input and its CNI_ARGS may be edited, and `config` is what that input says. */
export interface IpamInput {
  readonly request: CniRequest;
  readonly config: NetworkConfig;
}

/** What one ADD of the plugin took; disposing gives it back, and nothing that the container held before. */
export interface Grant extends AsyncDisposable {
  /** Single hosts, whatever mask the plugin returned (C§4.1), in the order of the result. */
  readonly addresses: readonly Prefix[];
  /** false for the target of a live migration, whose host routes come later (C§2.3 S9). */
  readonly hostRoutes: boolean;
  /** For the result, as the plugin has them (C§5.1). */
  readonly routes: readonly CniRoute[];
  readonly dns: CniDns;
}

export const HOLDS_ADDRESSES = "holds-addresses";

/** The IPAM plugin of one call. */
export interface IpamSource {
  /** @param address the only one that will do; absent: the plugin chooses */
  add(address?: Address): Promise<Grant>;
  /** Adds as `add` does, for a container that should hold nothing yet. `holds-addresses`: it does, and this call took nothing. */
  addFirst(address?: Address): Promise<Grant | typeof HOLDS_ADDRESSES>;
  /** Runs DEL, CHECK, STATUS or GC, which return nothing but an error. */
  run(command: OtherCommand): Promise<void>;
}

/** Which of an attachment's facts are resolved depends on the verb. */
type IpamCaller = NetworkCall & Partial<Pick<AddCall, "identity" | "requested">>;

type OtherCommand = Exclude<CniCommand, "ADD" | "VERSION">;

/**
 * Says whether the host gets routes. An empty route list of our own IPAM plugin marks the target of a live migration (C§2.3 S9), whose
 * routes Felix brings.
 */
export function wantsHostRoutes(
  { forwardsOnNode, ipam }: { readonly forwardsOnNode: boolean; readonly ipam: Pick<IpamPlugin, "isOurs"> },
  routes: readonly CniRoute[],
): boolean {
  return forwardsOnNode || !ipam.isOurs || routes.length > 0;
}

/** Reads one address of a result, as the single host that an interface gets. @throws TortieError `result-invalid` */
export function narrowAddress(text: string): Prefix {
  const prefix = parsePrefix(text);
  if (prefix === undefined) {
    throw new TortieError("result-invalid", `the IPAM plugin returned the address "${text}", which is not an address with a prefix length`);
  }
  return hostPrefix(prefix.address);
}

/**
 * Makes the plugin's input for an ADD: the runtime's own, with what the node and the pod's annotations put into it (C§2.3 S3 and S6).
 * @throws TortieError `pod-cidr-missing`, `datastore-object-missing`; DatastoreError
 */
export async function ipamInputForAdd(call: AddCall, workload: Pick<Workload, "requests">, host: Host): Promise<IpamInput> {
  const { request, config, ipamSection } = call;
  const ipam = ipamSection.needsPodCidrs ? hostLocalSection(request.netconf) : undefined;
  const onNode = ipam === undefined ? request.netconf : { ...request.netconf, ipam: await ipamOfNode(call, ipam, host) };
  const netconf = withPodPools(onNode, workload.requests);
  return {
    request: netconf === request.netconf ? request : { ...request, netconf, stdin: encode(netconf) },
    config: configWithPodPools(config, workload.requests),
  };
}

async function ipamOfNode({ config, nodeName }: AddCall, ipam: JsonObject, host: Host): Promise<JsonObject> {
  const name = config.kubernetes.nodeName ?? nodeName;
  const core = await host.core();
  if (core === undefined) {
    throw new TortieError(
      "kubeconfig-missing",
      "no way to a Kubernetes API server is configured, and only that knows the pod CIDR of usePodCidr",
    );
  }
  const found = await core.node(name);
  if (found === undefined) throw new TortieError("datastore-object-missing", `nodes ${JSON.stringify(name)} not found`);
  return withPodCidrs(ipam, name, found.podCIDRs);
}

/** Makes the plugin's input for every other verb. */
export function ipamInput({ request, config }: NetworkCall): IpamInput {
  return { request: { ...request, stdin: ipamStdinForDel(request) }, config };
}

/**
 * @param isRepeated the container still uses what an earlier ADD got: nothing is released when this one fails
 */
export function connectIpam(plugin: IpamPlugin, input: IpamInput, call: IpamCaller, host: Host, isRepeated = false): IpamSource {
  if (plugin.executable === HOST_SCOPE) return hostScopeSource(input, call, host);
  return plugin.isInProcess ? inProcess(input, call, host) : delegated(plugin, input, call, isRepeated);
}

/** Calls a plugin that is a program of its own. */
function delegated({ executable, isOurs }: IpamPlugin, input: IpamInput, call: NetworkCall, isRepeated: boolean): IpamSource {
  const delegateCall = (address?: Address): DelegateCall => {
    const { stdin, args } = requestFor(input, address);
    const env = { ...call.env, ...exportedSettings(call.config, call.datastore) };
    return { stdin, env, args, timeoutMs: DELEGATE_TIME_LIMIT_MS };
  };
  const giveBack = async (address: Address | undefined): Promise<void> => {
    try {
      await runDelegate(executable, { ...delegateCall(address), command: "DEL" });
    } catch (error) {
      // The error that made ADD fail is the one to report; the runtime's own DEL comes as well.
      call.log.error("IPAM release after a failed ADD failed as well", { error });
    }
  };
  const add = async (address?: Address): Promise<Grant> => {
    await using undo = new AsyncDisposableStack();
    // Registers the undo before the call, as the specification advises: a plugin that fails or dies half-way may have kept an address.
    if (!isRepeated) undo.defer(() => giveBack(address));
    const { ips, routes, dns } = await delegateAdd(executable, { ...delegateCall(address), signal: call.signal }, input.request.cniVersion);
    const addresses = ips.map((ip) => narrowAddress(ip.address));
    const hostRoutes = wantsHostRoutes({ forwardsOnNode: call.forwardsOnNode, ipam: { isOurs } }, routes);
    const taken = undo.move();
    return grantOf({ addresses, hostRoutes, routes, dns }, () => taken.disposeAsync());
  };
  return {
    add,
    // ADD of CNI does not say what was there before.
    addFirst: add,
    async run(command) {
      // ADD refuses azure-vnet-ipam, so that it holds nothing; and its DEL wants subnet and address, which no file names (C§2.5).
      if (command === "DEL" && input.config.ipam.type === AZURE_IPAM) return;
      await runDelegate(executable, { ...delegateCall(), command });
    },
  };
}

/** Serves our own plugin in this process. */
function inProcess(input: IpamInput, call: IpamCaller, host: Host): IpamSource {
  const ipamCall: IpamCall = { ...call, ...input };
  const add = async (address: Address | undefined, mustBeNew: boolean): Promise<Grant> => {
    const asked = address === undefined ? ipamCall : { ...ipamCall, requested: { addresses: [address] } };
    const added = await ipamAdd(asked, await host.ipam(), { mustBeNew });
    const addresses = added.addresses.map(({ address }) => hostPrefix(address));
    const hostRoutes = call.forwardsOnNode || added.hasRoutes;
    return grantOf({ addresses, hostRoutes, routes: printedRoutes(added), dns: {} }, added.giveBack);
  };
  return {
    add: (address) => add(address, false),
    async addFirst(address) {
      try {
        return await add(address, true);
      } catch (error) {
        if (error instanceof HandleExistsError) return HOLDS_ADDRESSES;
        throw error;
      }
    },
    async run(command) {
      await ipamRun(command, ipamCall, await host.ipam());
    },
  };
}

/** Uses the node's own ranges (A§4). Their code is loaded only where it is used. */
function hostScopeSource(input: IpamInput, call: IpamCaller, host: Host): IpamSource {
  const ipamCall = { ...call, ...input };
  const verbs = () => import("../ipam-plugin/host-scope/verbs.ts");
  const add = async (address?: Address): Promise<Grant> => {
    const asked = address === undefined ? ipamCall : { ...ipamCall, requested: { addresses: [address] } };
    const { addresses, giveBack } = await (await verbs()).hostScopeAdd(asked, await host.hostScope());
    return grantOf({ addresses, hostRoutes: true, routes: printedRoutes({ addresses, hasRoutes: true }), dns: {} }, giveBack);
  };
  return {
    add,
    addFirst: async (address) =>
      (await (await verbs()).holdsAddresses(ipamCall, await host.hostScope())) ? HOLDS_ADDRESSES : add(address),
    run: async (command) => (await verbs()).hostScopeRun(command, ipamCall, await host.hostScope()),
  };
}

/**
 * Asks for an address by an `IP=` at the end, which beats one that is there, because the last one counts (recording ipaddrs-and-ip-arg).
 */
function requestFor({ request }: IpamInput, address: Address | undefined): CniRequest {
  return address === undefined ? request : { ...request, args: `${request.args};IP=${formatAddress(address)}` };
}

function grantOf(taken: Omit<Grant, keyof AsyncDisposable>, giveBack: () => Promise<void>): Grant {
  return { ...taken, [Symbol.asyncDispose]: giveBack };
}
