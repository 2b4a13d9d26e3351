/**
 * Asks etcd's JSON gateway: a request goes to one member after the other until one answers, within limits. What an answer
 * says is answers.ts's.
 */
import { type Fields, field, isText } from "../../json/decode.ts";
import { Patience } from "../../kubernetes/client/limits.ts";
import { isTrustFailure, TransportError, transportErrorOr } from "../../kubernetes/client/transport-error.ts";
import { TrustReads } from "../../kubernetes/client/trust-reads.ts";
import { Secrets } from "../../log/secrets.ts";
import { Lane } from "../../system/lane.ts";
import { NEVER } from "../../system/waiting.ts";
import { CODES, EtcdError, isFull, isPassing, type Refusal, understood, wantsNewToken } from "./answers.ts";
import { type Health, Member, type MemberMemory, Members, NO_MEMORY } from "./members.ts";
import type { EtcdSettings } from "./settings.ts";
import { discoverMembers, ETCD_LIMITS, type EtcdLimits, type LookUp } from "./settings.ts";

/** What tests replace, but for the last two. */
export interface EtcdClientOptions {
  readonly limits?: Partial<EtcdLimits>;
  readonly random?: () => number;
  readonly lookUp?: LookUp;
  /** Absent: nothing is known at the start, and nothing is kept. */
  readonly memory?: MemberMemory;
  /** Carries out each request with all its tries, as a part of the caller's trace. Streams belong to no trace. */
  readonly around?: (<T>(path: string, ask: () => Promise<T>) => Promise<T>) | undefined;
}

/** What has happened to one request. */
interface Course {
  readonly path: string;
  readonly body: string;
  readonly deadline: number;
  readonly began: number;
  tries: number;
  isRepetition: boolean;
  hasNewToken: boolean;
  /** Members that cannot be trusted, or that do not trust us: asking them again is no use. */
  readonly untrusted: Set<Member>;
}

type FailedCourse = Pick<Course, "path" | "tries" | "isRepetition">;

export class EtcdClient {
  readonly #trustReads = new TrustReads();
  readonly #limits: EtcdLimits;
  readonly #options: EtcdClientOptions;
  readonly #secrets = new Secrets();
  readonly #patience: Patience;
  readonly #lane: Lane;
  #settings: EtcdSettings;
  #members: Promise<Members<Member>> | undefined;
  #token: Promise<string> | undefined;
  #isClosed = false;

  /** Connects at the first request. */
  constructor(settings: EtcdSettings, options: EtcdClientOptions = {}) {
    this.#settings = settings;
    this.#options = options;
    this.#limits = { ...ETCD_LIMITS, ...options.limits };
    this.#patience = new Patience(this.#limits.patience, performance.now());
    this.#lane = new Lane({ running: this.#limits.connections });
    this.#secrets.add(settings.user?.password);
    this.#secrets.addKey(settings.certificate?.key);
  }

  /** Names the members in messages: "http://10.0.0.1:2379,http://10.0.0.2:2379". */
  get servers(): string {
    const { members } = this.#settings;
    return "domain" in members ? `of ${members.domain}` : members.servers.map(({ url }) => url).join(",");
  }

  /** Our user, for messages; empty without authentication. */
  get user(): string {
    return this.#settings.user?.name ?? "";
  }

  /**
   * @param read what the answer says; an answer that it refuses is reported as not understood
   * @throws EtcdError
   */
  ask<T>(path: string, request: object, read: (answer: Fields) => T): Promise<Answer<T>> {
    const done = () => this.#lane.run(NEVER, () => this.#untilDone(path, JSON.stringify(request), read, true));
    const { around } = this.#options;
    return around === undefined ? done() : around(path, done);
  }

  /**
   * Asks for answers that come one after the other: each member once until one begins. Asking again is left to their reader.
   * @throws EtcdError
   */
  async stream(path: string, request: object, signal: AbortSignal): Promise<EtcdStream> {
    const members = await this.#found();
    const body = JSON.stringify(request);
    for (let tries = 1; ; tries++) {
      const settings = this.#settings;
      const token = settings.user === undefined ? undefined : await this.#tokenOf();
      const member = members.next(performance.now());
      const failed = (refusal: Refusal | TransportError) =>
        this.#streamFailed({ path, tries, isRepetition: false }, member, members, refusal);
      const limit = members.count === 1 ? this.#limits.try : this.#limits.firstTry;
      const outcome = await transportErrorOr(() => member.stream(path, body, token, signal, limit));
      if (!(outcome instanceof TransportError) && !("code" in outcome)) {
        members.succeeded(member);
        return { bytes: outcome, failed };
      }
      if (tries === 1 && this.#isRenewed(outcome, members, settings)) continue;
      const error = failed(outcome);
      const isMembers = outcome instanceof TransportError || isPassing(outcome);
      if (!isMembers || tries >= members.count || signal.aborted || this.#isClosed) throw error;
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#members?.then(({ all }) => {
      for (const member of all) member.close();
    }, ignore);
  }

  /** Another member, and another token, may do better. @returns the error to throw */
  #streamFailed(course: FailedCourse, member: Member, members: Members<Member>, failed: Refusal | TransportError): EtcdError {
    if ((failed instanceof TransportError || isPassing(failed)) && !this.#isClosed) members.failed(member, performance.now());
    if (!(failed instanceof TransportError) && wantsNewToken(failed)) this.#token = undefined;
    return this.#failure(course, member, failed);
  }

  async #untilDone<T>(path: string, body: string, read: (answer: Fields) => T, isAuthenticated: boolean): Promise<Answer<T>> {
    const { request, least } = this.#limits;
    const began = performance.now();
    const limit = Math.min(request, Math.max(this.#patience.left(began), least));
    const course: Course = {
      path,
      body,
      began,
      deadline: began + limit,
      tries: 0,
      isRepetition: false,
      hasNewToken: false,
      untrusted: new Set(),
    };
    const members = await this.#found();
    for (;;) {
      const token = isAuthenticated && this.#settings.user !== undefined ? await this.#tokenOf() : undefined;
      const settings = this.#settings;
      const start = performance.now();
      const member = members.next(start);
      const outcome = await this.#try(course, member, members, token);
      if (typeof outcome === "string") {
        members.succeeded(member);
        return { value: understood(outcome, read, member.url + path, this.#secrets), isRepetition: course.isRepetition };
      }
      if (isAuthenticated && !(outcome instanceof TransportError) && wantsNewToken(outcome) && !course.hasNewToken) {
        course.hasNewToken = true;
        this.#token = undefined;
        if (this.#settings.user !== undefined) continue;
      }
      if (this.#isRenewed(outcome, members, settings)) {
        course.untrusted.clear();
        course.isRepetition ||= outcome instanceof TransportError && outcome.wasSent;
        continue;
      }
      this.#patience.spend(start, performance.now(), performance.now());
      await this.#nextTry(course, member, members, outcome);
    }
  }

  /**
   * Reads the files of trust again where a certificate was refused: they are replaced while programs run.
   * @param used of the try that failed; another request may have read the files since
   * @returns whether other ones are in use now
   */
  #isRenewed(outcome: Refusal | TransportError, members: Members<Member>, used: EtcdSettings): boolean {
    if (!(outcome instanceof TransportError)) return false;
    // A member that refuses our certificate in TLS 1.3 just ends the connection.
    const isOurs = outcome.failure === "broken" && used.certificate !== undefined;
    if (!isTrustFailure(outcome) && !isOurs) return false;
    if (this.#settings !== used) return true;
    if (!this.#trustReads.isDue()) return false;
    const read = used.reload();
    if (Bun.deepEquals([used.trust, used.certificate], [read.trust, read.certificate])) return false;
    this.#settings = read;
    this.#secrets.addKey(read.certificate?.key);
    for (const member of members.all) member.renew(read);
    return true;
  }

  async #try(
    course: Course,
    member: Member,
    members: Members<Member>,
    token: string | undefined,
  ): Promise<string | Refusal | TransportError> {
    const { firstTry, try: longest } = this.#limits;
    const left = course.deadline - performance.now();
    const one = members.count === 1 ? longest : Math.min(longest, firstTry * 2 ** course.tries);
    course.tries++;
    return transportErrorOr(() => member.ask(course.path, course.body, token, Math.max(1, Math.min(one, left))));
  }

  /** Waits until the request may be tried once more, by another member if there is one. @throws EtcdError when it may not */
  async #nextTry(course: Course, member: Member, members: Members<Member>, failed: Refusal | TransportError): Promise<void> {
    const now = performance.now();
    if (failed instanceof TransportError && failed.failure === "untrusted") course.untrusted.add(member);
    // Whether a write that got no answer was carried out is found out by looking (collection.ts).
    else if (failed instanceof TransportError || isPassing(failed)) course.isRepetition = true;
    if (!isRepeatable(failed, course, members.count) || this.#isClosed) throw this.#failure(course, member, failed);
    members.failed(member, now);
    const { firstPause, longestPause, refused } = this.#limits;
    const hasOther = members.hasRested(now);
    const pause = hasOther ? 0 : Math.min(firstPause * 2 ** Math.floor(course.tries / members.count), longestPause);
    this.#patience.spend(now, now + pause, now);
    const isRefused = failed instanceof TransportError && failed.failure === "not-connected";
    const end = isRefused && !hasOther ? Math.min(course.deadline, course.began + refused) : course.deadline;
    if (now + pause >= end) throw this.#failure(course, member, failed);
    if (pause > 0) await Bun.sleep(pause);
  }

  /** Finds the members, once; what was not found is looked up again by the next request. */
  #found(): Promise<Members<Member>> {
    this.#members ??= this.#find().catch((error: unknown) => {
      this.#members = undefined;
      throw error;
    });
    return this.#members;
  }

  async #find(): Promise<Members<Member>> {
    const { members } = this.#settings;
    const servers = "domain" in members ? await discoverMembers(members.domain, this.#options.lookUp) : members.servers;
    return membersOf(
      servers.map((server) => new Member(server, this.#settings, this.#secrets)),
      this.#options,
    );
  }

  /** Gets one token for all that wait for one. */
  #tokenOf(): Promise<string> {
    this.#token ??= this.#authenticate().catch((error: unknown) => {
      this.#token = undefined;
      throw error;
    });
    return this.#token;
  }

  async #authenticate(): Promise<string> {
    const body = JSON.stringify(this.#settings.user);
    const { value: token } = await this.#untilDone("/v3/auth/authenticate", body, (answer) => field(answer, "token", isText), false);
    this.#secrets.add(token);
    return token;
  }

  #failure(course: FailedCourse, member: Member, failed: Refusal | TransportError): EtcdError {
    const times = course.tries > 1 ? ` (tried ${course.tries} times)` : "";
    const code = failed instanceof TransportError ? CODES.none : failed.code;
    // No cause: a log shows causes too, as they came.
    return new EtcdError(`etcd ${member.url}${course.path}: ${this.#secrets.redact(failed.message)}${times}`, {
      code,
      isRepetition: course.isRepetition,
      fault: failed instanceof TransportError ? failed.fault : undefined,
    });
  }
}

/** Makes the members, with what earlier processes know of them. A member without others is asked in any case. */
function membersOf(all: readonly Member[], { random, memory = NO_MEMORY }: EtcdClientOptions): Members<Member> {
  if (all.length === 1) return new Members(all, { random });
  const remembered = memory.read();
  const known = new Map(
    all.flatMap((member) => {
      const health = remembered.get(member.url);
      return health === undefined ? [] : [[member, health] as const];
    }),
  );
  const onChange = (health: ReadonlyMap<Member, Health>) => memory.write(new Map([...health].map(([{ url }, of]) => [url, of])));
  return new Members(all, { random, known, onChange });
}

export interface EtcdStream {
  readonly bytes: AsyncIterable<Uint8Array>;
  /** Notes what the member says instead of an answer. @returns the error to throw */
  failed(refusal: Refusal): EtcdError;
}

export interface Answer<T> {
  readonly value: T;
  /** An earlier try of the same request got no answer. */
  readonly isRepetition: boolean;
}

function isRepeatable(failed: Refusal | TransportError, course: Course, count: number): boolean {
  if (!(failed instanceof TransportError)) return isPassing(failed) && !isFull(failed);
  if (failed.failure === "untrusted") return course.untrusted.size < count;
  return failed.failure !== "not-understood";
}

function ignore(): void {
  // The caller that opened it knows.
}
