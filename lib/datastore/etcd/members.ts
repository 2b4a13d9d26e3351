/**
 * Knows the members of an etcd cluster: which one is asked next, the question and its answer, and what processes tell each other of them.
 */
import { isNumber, isObject, isText, mapOf, optional, parseObject } from "../../json/decode.ts";
import { Transport } from "../../kubernetes/client/transport.ts";
import type { ApiServer } from "../../kubernetes/config/api-config.ts";
import { excerpt } from "../../log/format.ts";
import type { Secrets } from "../../log/secrets.ts";
import { directoryOf, makeDirectories, readText, statusOf } from "../../system/files.ts";
import { writeWhole } from "../../system/write-whole.ts";
import { CODES, type Refusal } from "./answers.ts";
import type { EtcdSettings } from "./settings.ts";

const FIRST_REST_MS = 1_000;
export const LONGEST_REST_MS = 30_000;

/** Describes a member that has failed lately. */
export interface Health {
  readonly failures: number;
  /** By a clock that never jumps, ms. */
  readonly restsUntil: number;
}

export interface MembersOptions<M> {
  /** Between 0 and 1: the nodes of a cluster begin with different members. */
  readonly random?: (() => number) | undefined;
  /** What others have found out before. */
  readonly known?: ReadonlyMap<M, Health>;
  /** Runs with all members that are not well, whenever that changes. */
  readonly onChange?: (health: ReadonlyMap<M, Health>) => void;
}

/**
 * Chooses the member of the cluster that is asked next: the one that answered last, as long as it answers. One that failed is left alone
 * for a while, which grows with every failure; when all have failed, the one whose while ends first is tried.
 */
export class Members<M> {
  readonly #members: readonly M[];
  readonly #health: Map<M, Health>;
  readonly #onChange: (health: ReadonlyMap<M, Health>) => void;
  #current: number;

  constructor(members: readonly M[], { random = Math.random, known = new Map(), onChange = () => {} }: MembersOptions<M> = {}) {
    this.#members = members;
    this.#health = new Map(known);
    this.#onChange = onChange;
    this.#current = Math.floor(random() * members.length) % members.length;
  }

  get count(): number {
    return this.#members.length;
  }

  get all(): readonly M[] {
    return this.#members;
  }

  /** @param now of a clock that never jumps, as everywhere here */
  next(now: number): M {
    const inTurn = this.#members.map((_, offset) => (this.#current + offset) % this.#members.length);
    const restOf = (index: number) => Math.max(0, this.#restsUntil(index) - now);
    const best = inTurn.reduce((one, other) => (restOf(other) < restOf(one) ? other : one));
    this.#current = best;
    const member = this.#members[best];
    if (member === undefined) throw new RangeError("no members");
    return member;
  }

  /** Tells whether a member can be asked that has not failed lately. */
  hasRested(now: number): boolean {
    return this.#members.some((_, index) => this.#restsUntil(index) <= now);
  }

  succeeded(member: M): void {
    if (this.#health.delete(member)) this.#onChange(this.#health);
  }

  failed(member: M, now: number): void {
    const failures = (this.#health.get(member)?.failures ?? 0) + 1;
    this.#health.set(member, { failures, restsUntil: now + Math.min(FIRST_REST_MS * 2 ** (failures - 1), LONGEST_REST_MS) });
    this.#onChange(this.#health);
  }

  #restsUntil(index: number): number {
    const member = this.#members[index];
    return (member === undefined ? undefined : this.#health.get(member)?.restsUntil) ?? 0;
  }
}

const OK = 200;
/** etcd answers a request at once where its member has no leader, instead of after 7 s (etcd's api/v3rpc/interceptor.go). */
const REQUIRE_LEADER = ["Grpc-Metadata-hasleader", "true"] as const;
/** So much of a refusal is looked at, in characters, and so much of it is quoted. */
const MOST_OF_A_REFUSAL = 64 * 1024;
const QUOTED = 500;
/** Characters that are quoted of an answer that etcd has not written. */
const QUOTED_OF_OTHERS = 200;

/** How a member proves itself to us, and we to it. */
type Proofs = Pick<EtcdSettings, "trust" | "certificate">;

function transportTo(server: ApiServer, { trust, certificate }: Proofs): Transport {
  return new Transport({ server, trust, proxy: undefined }, certificate);
}

/** Asks one member of the cluster: a question to its JSON gateway, and its answer or its refusal. */
export class Member {
  readonly url: string;
  readonly #server: ApiServer;
  readonly #secrets: Secrets;
  #transport: Transport;

  /** @param secrets that no refusal may repeat */
  constructor(server: ApiServer, proofs: Proofs, secrets: Secrets) {
    this.url = server.url;
    this.#server = server;
    this.#secrets = secrets;
    this.#transport = transportTo(server, proofs);
  }

  /** Goes on with other trust and another certificate. */
  renew(proofs: Proofs): void {
    this.#transport.close();
    this.#transport = transportTo(this.#server, proofs);
  }

  /**
   * @param path below the gateway's root: "/v3/kv/range"
   * @returns the text of the answer, or what the member said instead, without secrets
   * @throws TransportError
   */
  async ask(path: string, body: string, token: string | undefined, limitMs: number): Promise<string | Refusal> {
    const answer = await this.#transport.exchange({ ...this.#request(path, body, token), isRepeatable: false }, limitMs);
    return answer.status === OK ? answer.body : this.#refusalOf(answer.status, answer.body.slice(0, MOST_OF_A_REFUSAL));
  }

  /**
   * Asks a question whose answers come one after the other, for as long as `signal` does not abort.
   * @param limitMs for the first one
   * @returns the bytes as they come, or what the member said instead, without secrets
   * @throws TransportError
   */
  async stream(
    path: string,
    body: string,
    token: string | undefined,
    signal: AbortSignal,
    limitMs: number,
  ): Promise<AsyncIterable<Uint8Array> | Refusal> {
    const answer = await this.#transport.stream(this.#request(path, body, token), signal, limitMs);
    const { status, body: bytes } = answer;
    return status === OK && bytes !== null ? bytes : this.#refusalOf(status, await beginningOf(bytes));
  }

  #request(path: string, body: string, token: string | undefined) {
    const headers: (readonly [string, string])[] = [["Content-Type", "application/json"], REQUIRE_LEADER];
    if (token !== undefined) headers.push(["Authorization", token]);
    return { method: "POST", target: `${this.#server.basePath}${path}`, headers, body } as const;
  }

  close(): void {
    this.#transport.close();
  }

  #refusalOf(status: number, body: string): Refusal {
    try {
      const { code, message, error } = parseObject(body);
      const words = isText(message) ? message : error;
      if (isNumber(code) && isText(words)) return { code, message: excerpt(this.#secrets.redact(words), QUOTED) };
    } catch {
      // Not etcd's own words.
    }
    // A load balancer without servers answers with 502 to 504; a member never does so without a code.
    const code = status >= 500 ? CODES.unavailable : CODES.none;
    const quoted = excerpt(this.#secrets.redact(body), QUOTED_OF_OTHERS);
    return { code, message: `status ${status}: ${quoted} (is this the JSON gateway of etcd v3?)` };
  }
}

/** Reads the first part of a refusal. A member's refusal has no second part. */
async function beginningOf(bytes: AsyncIterable<Uint8Array> | null): Promise<string> {
  for await (const first of bytes ?? []) return new TextDecoder().decode(first).slice(0, MOST_OF_A_REFUSAL);
  return "";
}

/** Beside the agent's files, on a tmpfs: it does not outlive the boot. Plugins and agent write it. */
export const MEMBER_MEMORY = "/run/tortie/etcd-members.json";

const MODE = 0o600;
const DIRECTORY_MODE = 0o755;
/** A cluster has a handful of members; what is larger is not ours. */
const MOST_BYTES = 65_536;

export interface MemberMemory {
  /** Reads by URL; times are those of `performance.now()` of this process. */
  read(): ReadonlyMap<string, Health>;
  /** @param health of the members that have failed lately; the others are well */
  write(health: ReadonlyMap<string, Health>): void;
}

export const NO_MEMORY: MemberMemory = { read: () => new Map(), write: () => {} };

/**
 * A plugin lives for one call and would pay a dead member's time-out in every one of them. A file that is not there, broken or old says
 * nothing, and one that cannot be written changes nothing: the memory only saves time.
 */
export function memberMemory(path: string): MemberMemory {
  // The file has the time of day, which other processes share; a rest that reaches further than any can is of a clock that jumped.
  const passed = () => Date.now() - performance.now();
  return {
    read() {
      try {
        if ((statusOf(path)?.size ?? 0) > MOST_BYTES) return new Map();
        const entries = Object.entries(optional(parseObject(readText(path)), "members", mapOf(isObject)).members ?? {});
        const ages = passed();
        return new Map(
          entries.flatMap(([url, { failures, restsUntil }]) => {
            const isSane = isNumber(failures) && isNumber(restsUntil) && restsUntil <= Date.now() + LONGEST_REST_MS;
            return isSane ? [[url, { failures, restsUntil: restsUntil - ages }] as const] : [];
          }),
        );
      } catch {
        return new Map();
      }
    },
    write(health) {
      const ages = passed();
      const members = Object.fromEntries(
        [...health].map(([url, { failures, restsUntil }]) => [url, { failures, restsUntil: Math.round(restsUntil + ages) }]),
      );
      try {
        makeDirectories(directoryOf(path), DIRECTORY_MODE);
        writeWhole(path, JSON.stringify({ members }), MODE);
      } catch {
        // Nothing is lost but time.
      }
    },
  };
}
