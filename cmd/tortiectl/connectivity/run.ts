/** Runs `tortiectl connectivity test` and `clean`: makes the pods, tries the network, removes the pods, and prints what came of it. */
import { cleanCluster, openClusterWorld } from "../../../doctor/connectivity/cluster-world.ts";
import { cleanHost, openHostWorld } from "../../../doctor/connectivity/host-world.ts";
import { testConnectivity } from "../../../doctor/connectivity/run.ts";
import type { Target, World } from "../../../doctor/connectivity/world.ts";
import { type CheckResult, exitStatus, type Report } from "../../../doctor/report.ts";
import { conflistsIn } from "../../../installer/lists.ts";
import { parseAddress } from "../../../lib/addresses/address.ts";
import { defaultPluginPath } from "../../../lib/cni/runtime/run-plugin.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import type { ApiClient } from "../../../lib/kubernetes/api-client.ts";
import { hostName } from "../../../lib/system/files.ts";
import { SYSTEM_CLOCK } from "../../../lib/system/waiting.ts";
import { VERSION } from "../../output.ts";
import { openNamedServer } from "../cluster/access.ts";
import { printReport } from "../doctor/print.ts";
import { milliseconds } from "../options.ts";
import type { Terminal } from "../terminal.ts";

interface PlaceOptions {
  readonly kubeconfig: string | undefined;
  readonly conflist: string | undefined;
  readonly cniPath: string | undefined;
  readonly cacheDir: string;
  readonly json: boolean;
}

interface TestOptions extends PlaceOptions {
  readonly node: readonly string[];
  readonly image: string | undefined;
  readonly only: readonly string[] | undefined;
  readonly egress: readonly string[];
  readonly dnsServer: string | undefined;
  readonly dnsName: string | undefined;
  /** Seconds. */
  readonly timeout: number;
  readonly podsTimeout: number;
}

const NET_DIR = "/etc/cni/net.d";

/** @returns exit status: 1 when something failed, or the test was interrupted */
export async function test(options: TestOptions, terminal: Terminal): Promise<number> {
  const timeoutMs = milliseconds("timeout", options.timeout);
  const end = new AbortController();
  const interrupt = () => {
    if (!options.json && !end.signal.aborted) terminal.err("interrupted: the pods of the test are being removed");
    end.abort(new Error("the test was interrupted"));
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, interrupt);
  const results = await inWorld(options, end.signal, (world) =>
    testConnectivity(world, { only: options.only, timeoutMs, signal: end.signal }),
  );
  return show(results, options.json, terminal);
}

/** @returns exit status: 1 when something could not be removed */
export async function clean(options: PlaceOptions, terminal: Terminal): Promise<number> {
  const kubeconfig = kubeconfigOf(options);
  if (kubeconfig === undefined) return show(await cleanHost(options.cacheDir, pluginPathOf(options)), options.json, terminal);
  using api = clientOf(kubeconfig);
  return show(await cleanCluster(api, true), options.json, terminal);
}

/** Makes the world, has the work done in it, and removes it, whatever happens. */
async function inWorld<T>(options: TestOptions, signal: AbortSignal, work: (world: World) => Promise<T>): Promise<T> {
  const places = {
    outside: options.egress.map((text) => targetOf("egress", text, undefined)),
    nameServer: options.dnsServer === undefined ? undefined : targetOf("dns-server", options.dnsServer, 53),
    lookedUp: options.dnsName,
  };
  const kubeconfig = kubeconfigOf(options);
  if (kubeconfig === undefined) {
    const { cacheDir } = options;
    await using world = await openHostWorld(
      { conflist: conflistOf(options), pluginPath: pluginPathOf(options), cacheDir, ...places },
      signal,
    );
    return await work(world);
  }
  using api = clientOf(kubeconfig);
  const { node, image, podsTimeout } = options;
  const wanted = { nodes: node, image, podsMs: milliseconds("pods-timeout", podsTimeout), ...places };
  await using world = await openClusterWorld(api, wanted, signal);
  return await work(world);
}

function show(results: readonly CheckResult[], json: boolean, terminal: Terminal): number {
  const report: Report = { time: SYSTEM_CLOCK.date().toISOString(), host: hostName(), version: VERSION, results };
  if (json) terminal.out(JSON.stringify(report, undefined, 2));
  else printReport(terminal, report);
  return exitStatus(report);
}

/** A list that is named means this host. */
function kubeconfigOf({ kubeconfig, conflist }: PlaceOptions): string | undefined {
  if (conflist !== undefined) return kubeconfig;
  return kubeconfig ?? (process.env.KUBECONFIG || undefined);
}

function clientOf(kubeconfig: string): ApiClient & Disposable {
  // A test looks at its pods several times a second, on behalf of one person.
  return openNamedServer(kubeconfig, { qps: 50 });
}

function pluginPathOf({ cniPath }: PlaceOptions): string {
  return cniPath ?? defaultPluginPath(process.env);
}

/** Finds the list that a runtime would take: the first by name. */
function conflistOf({ conflist }: PlaceOptions): string {
  if (conflist !== undefined) return conflist;
  const [first] = conflistsIn(NET_DIR);
  if (first !== undefined) return first;
  throw new TortieError("conflist-unreadable", `there is no network configuration in ${NET_DIR}`, {
    next: "give --conflist FILE, or --kubeconfig FILE for a test in a cluster",
  });
}

/** @throws TortieError `option-invalid` */
function targetOf(option: string, text: string, defaultPort: number | undefined): Target {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+|[0-9a-fA-F:]*))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const whole = parseAddress(text) === undefined ? undefined : text;
  const address = whole ?? bracketed ?? plain ?? "";
  const number = whole !== undefined || port === undefined ? defaultPort : Number(port);
  if (parseAddress(address) === undefined || number === undefined || number < 1 || number > 65_535) {
    const form =
      defaultPort === undefined ? "ADDRESS:PORT, or [ADDRESS]:PORT for IPv6" : "ADDRESS, ADDRESS:PORT, or [ADDRESS]:PORT for IPv6";
    throw new TortieError("option-invalid", `--${option} ${JSON.stringify(text)} is not of the form ${form}`);
  }
  return { address, port: number };
}
