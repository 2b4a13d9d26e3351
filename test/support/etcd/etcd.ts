/** A real etcd for tests, of one member or more: `await using etcd = await startEtcd()`. Its members die with the process that started them. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { storeOfEtcd } from "../judge/servers.ts";
import type { SeenStore } from "../judge/world.ts";
import { endProcess, isRunning, pause, signalProcess, startProcess } from "../kubernetes/process.ts";
import { endServersIn, freePorts, serverPrograms } from "../kubernetes/servers.ts";

const START_LIMIT_MS = 60_000;

export interface EtcdOptions {
  readonly members?: number;
  /** Where each member runs, instead of on this namespace's own loopback: an entry a member. */
  readonly places?: readonly MemberPlace[];
  /** Further arguments of every member. */
  readonly args?: readonly string[];
  /** Files of a TLS server: clients must show a certificate of the same authority. */
  readonly tls?: { readonly certificate: string; readonly key: string; readonly ca: string };
}

/** A named network namespace, and its addresses for clients and for the other members. */
export interface MemberPlace {
  readonly namespace: string;
  readonly client: string;
  readonly peer: string;
}

/** A member of the cluster. */
interface TestMember {
  readonly name: string;
  readonly namespace?: string;
  readonly client: string;
  readonly peer: string;
  pid: number | undefined;
}

export class TestEtcd implements AsyncDisposable {
  readonly dir: string;
  readonly #members: readonly TestMember[];
  readonly #options: EtcdOptions;
  readonly #program: string;

  private constructor(dir: string, members: readonly TestMember[], options: EtcdOptions) {
    this.dir = dir;
    this.#members = members;
    this.#options = options;
    this.#program = join(serverPrograms(), "etcd");
  }

  /** @internal Use `startEtcd`. */
  static async start(options: EtcdOptions): Promise<TestEtcd> {
    const scheme = options.tls === undefined ? "http" : "https";
    const members: TestMember[] = [];
    for (const [number, { namespace, client, peer }] of (options.places ?? []).entries()) {
      members.push({ name: `m${number}`, namespace, client: `${scheme}://${client}:2379`, peer: `http://${peer}:2380`, pid: undefined });
    }
    const alone = options.places === undefined ? (options.members ?? 1) : 0;
    for (let number = 0; number < alone; number++) {
      const { etcd, etcdPeer } = await freePorts();
      members.push({ name: `m${number}`, client: `${scheme}://127.0.0.1:${etcd}`, peer: `http://127.0.0.1:${etcdPeer}`, pid: undefined });
    }
    const etcd = new TestEtcd(mkdtempSync("/run/tortie-etcd-"), members, options);
    for (let number = 0; number < members.length; number++) etcd.#launch(number);
    try {
      for (let number = 0; number < members.length; number++) await etcd.ready(number);
      return etcd;
    } catch (error) {
      const logs = members.map(({ name }) => readFileSync(join(etcd.dir, `${name}.log`), "utf8").slice(-2000)).join("\n");
      await etcd[Symbol.asyncDispose]();
      throw new Error(`no etcd: ${String(error)}\n${logs}`);
    }
  }

  /** URLs of the members. */
  get urls(): readonly string[] {
    return this.#members.map(({ client }) => client);
  }

  /** As `etcd_endpoints` wants them. */
  get endpoints(): string {
    return this.urls.join(",");
  }

  /** Of the first member. */
  get port(): number {
    return Number(new URL(this.urls[0] ?? "").port);
  }

  pidOf(number: number): number | undefined {
    return this.#members[number]?.pid;
  }

  /** Starts it again, and waits until it answers. */
  async startMember(number: number): Promise<void> {
    this.#launch(number);
    await this.ready(number);
  }

  #launch(number: number): void {
    const { name, client, peer, namespace } = this.#member(number);
    const { tls, args = [] } = this.#options;
    const files = tls && [`--cert-file=${tls.certificate}`, `--key-file=${tls.key}`, `--trusted-ca-file=${tls.ca}`, "--client-cert-auth"];
    const within = namespace === undefined ? [] : ["/usr/bin/nsenter", `--net=/run/netns/${namespace}`];
    this.#member(number).pid = startProcess(
      [
        ...within,
        this.#program,
        `--name=${name}`,
        `--data-dir=${join(this.dir, name)}`,
        `--listen-client-urls=${client}`,
        `--advertise-client-urls=${client}`,
        `--listen-peer-urls=${peer}`,
        `--initial-advertise-peer-urls=${peer}`,
        `--initial-cluster=${this.#members.map((member) => `${member.name}=${member.peer}`).join(",")}`,
        "--unsafe-no-fsync",
        "--log-level=warn",
        ...(files ?? []),
        ...args,
      ],
      join(this.dir, `${name}.log`),
    );
  }

  async stopMember(number: number): Promise<void> {
    await endProcess(this.pidOf(number));
  }

  /** Stops it where it stands: it answers nothing, and keeps its connections. */
  freezeMember(number: number, signal: "SIGSTOP" | "SIGCONT"): void {
    signalProcess(this.pidOf(number), signal);
  }

  /** Waits until a member answers. With TLS it is enough that it takes connections. */
  async ready(number: number): Promise<void> {
    const { client, pid } = this.#member(number);
    const deadline = Date.now() + START_LIMIT_MS;
    for (;;) {
      if (await isAnswering(client, this.#options.tls !== undefined)) return;
      if (Date.now() > deadline || pid === undefined || !isRunning(pid)) throw new Error(`member ${number} does not answer`);
      await pause(30);
    }
  }

  /** One request to the JSON gateway of a member. */
  async ask(path: string, request: object = {}, number = 0, token = ""): Promise<Record<string, unknown>> {
    const headers = { "Content-Type": "application/json", ...(token === "" ? {} : { Authorization: token }) };
    const limit = AbortSignal.timeout(20_000);
    const answer = await fetch(this.#member(number).client + path, {
      method: "POST",
      headers,
      body: JSON.stringify(request),
      signal: limit,
    });
    const json = recordOf(await answer.json());
    if (!answer.ok) throw new Error(`${path}: ${JSON.stringify(json)}`);
    return json;
  }

  async put(key: string, value: string): Promise<void> {
    await this.ask("/v3/kv/put", { key: btoa(key), value: new TextEncoder().encode(value).toBase64() });
  }

  /** An object of Calico's. */
  putResource(plural: string, name: string, spec: Readonly<Record<string, unknown>>): Promise<void> {
    const object = { apiVersion: "projectcalico.org/v3", metadata: { name }, spec };
    return this.put(`/calico/resources/v3/projectcalico.org/${plural}/${name}`, JSON.stringify(object));
  }

  async remove(key: string): Promise<void> {
    await this.ask("/v3/kv/deleterange", { key: btoa(key) });
  }

  /** What lies below a prefix: key → value. */
  async contents(prefix = "/"): Promise<ReadonlyMap<string, string>> {
    const { kvs } = await this.ask("/v3/kv/range", { key: btoa(prefix), range_end: btoa(`${prefix}\xff`) });
    const pairs: readonly { readonly key: string; readonly value?: string }[] = Array.isArray(kvs) ? kvs : [];
    return new Map(pairs.map(({ key, value = "" }) => [atob(key), Buffer.from(value, "base64").toString()]));
  }

  /** For the judge: what Calico keeps here. */
  async lookAtStore(): Promise<SeenStore> {
    return storeOfEtcd(await this.contents("/calico/"));
  }

  /** Forgets every change that was before now. */
  async compact(): Promise<void> {
    const { header } = await this.ask("/v3/kv/range", { key: btoa("/") });
    await this.ask("/v3/kv/compaction", { revision: recordOf(header).revision, physical: true });
  }

  /** Removes every key. */
  async clear(): Promise<void> {
    await this.ask("/v3/kv/deleterange", { key: btoa("\0"), range_end: btoa("\0") });
  }

  /** Number of the member that leads. */
  async leader(): Promise<number> {
    for (let number = 0; number < this.#members.length; number++) {
      const status = await this.ask("/v3/maintenance/status", {}, number).catch(() => undefined);
      if (status === undefined) continue;
      const { leader, header } = status;
      const id = typeof header === "object" && header !== null && "member_id" in header ? header.member_id : undefined;
      if (leader !== undefined && leader === id) return number;
    }
    throw new Error("no member leads");
  }

  /** Requests that the members have answered so far, by method: "Range", "Txn". */
  async requests(): Promise<Readonly<Record<string, number>>> {
    const counts: Record<string, number> = {};
    for (const url of this.urls) {
      const text = await (await fetch(`${url}/metrics`)).text();
      for (const [, method = "", count] of text.matchAll(
        /^grpc_server_handled_total\{.*grpc_method="(\w+)",grpc_service="etcdserverpb.KV".*\} (\d+)$/gm,
      ))
        counts[method] = (counts[method] ?? 0) + Number(count);
    }
    return counts;
  }

  /** Reads, and transactions, which are writes or many reads at once, that members answer meanwhile. */
  async costsOf(work: () => Promise<unknown>): Promise<{ readonly Range: number; readonly Txn: number }> {
    const before = await this.requests();
    await work();
    const after = await this.requests();
    const since = (method: string) => (after[method] ?? 0) - (before[method] ?? 0);
    return { Range: since("Range"), Txn: since("Txn") };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#members.map(({ pid }) => endProcess(pid)));
    await endServersIn(this.dir);
    rmSync(this.dir, { recursive: true, force: true });
  }

  #member(number: number): TestMember {
    const member = this.#members[number];
    if (member === undefined) throw new Error(`there is no member ${number}`);
    return member;
  }
}

async function isAnswering(url: string, isTls: boolean): Promise<boolean> {
  try {
    return (await fetch(`${url}/health`, { tls: { rejectUnauthorized: false } })).ok;
  } catch (error) {
    // Somebody listens there, and wants a certificate.
    return isTls && !String(error).includes("ECONNREFUSED") && !String(error).includes("Unable to connect");
  }
}

function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

/** Starts the members and waits until all of them answer. */
export function startEtcd(options: EtcdOptions = {}): Promise<TestEtcd> {
  return TestEtcd.start(options);
}
