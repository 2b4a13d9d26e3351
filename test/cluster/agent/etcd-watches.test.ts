/** Caches on a real etcd: what they show, and what becomes of them when streams break or fall silent, members end, history is lost. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { EtcdClient, type EtcdClientOptions } from "../../../lib/datastore/etcd/etcd-client.ts";
import { EtcdFeed, type EtcdSource, type KeySelection } from "../../../lib/datastore/etcd/etcd-feed.ts";
import { KeyValueStore } from "../../../lib/datastore/etcd/key-value-store.ts";
import { resolveEtcdSettings } from "../../../lib/datastore/etcd/settings.ts";
import { Watches } from "../../../lib/kubernetes/watch/informers.ts";
import type { CacheChange, ResourceCache } from "../../../lib/kubernetes/watch/resource-cache.ts";
import { startEtcd, type TestEtcd } from "../../support/etcd/etcd.ts";
import { StreamProxy } from "../../support/etcd/stream-proxy.ts";
import { fresh, shared } from "../../support/fixtures.ts";
import { until } from "../../support/kubernetes/until.ts";

const WORDS: KeySelection<string> = {
  name: "words",
  prefix: "/words/",
  nameOf: (key) => key.slice("/words/".length),
  decode({ value }) {
    if (value === "unreadable") throw new Error("it is no word");
    return value;
  },
};

/** A client of its own, and what it has been asked. */
class Reader implements AsyncDisposable {
  readonly problems: string[] = [];
  readonly changes: CacheChange<string>[] = [];
  readonly cache: ResourceCache<string>;
  lists = 0;
  streams = 0;
  readonly #client: EtcdClient;
  readonly #watches: Watches;

  constructor(endpoints: string, options: EtcdClientOptions = {}, { heartbeatMs = 0, env = {} } = {}) {
    const { etcd } = decodeNetworkConfig({ name: "net1", etcd_endpoints: endpoints });
    this.#client = new EtcdClient(resolveEtcdSettings(etcd, env), options);
    const store = new KeyValueStore(this.#client);
    const source: EtcdSource = {
      store: {
        pages: (prefix) => {
          this.lists++;
          return store.pages(prefix);
        },
      },
      client: {
        stream: (...call) => {
          this.streams++;
          return this.#client.stream(...call);
        },
      },
    };
    this.#watches = new Watches({ onProblem: (message) => this.problems.push(message) });
    const selection = heartbeatMs === 0 ? WORDS : { ...WORDS, isHeartbeat: true };
    this.cache = this.#watches.begin(new EtcdFeed(selection, source, heartbeatMs));
    this.cache.onChange((change) => this.changes.push(change));
  }

  get words(): string {
    return this.cache.list().toSorted().join();
  }

  get isFollowing(): boolean {
    return this.cache.state.lostSince === undefined;
  }

  shows(words: string): Promise<void> {
    return until(words, () => this.words === words && this.isFollowing);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.close();
    await this.#watches[Symbol.asyncDispose]();
  }
}

/** By one member, as soon as the cluster has a leader. */
function write(etcd: TestEtcd, word: string, number: number): Promise<void> {
  const request = { key: btoa(`/words/${word}`), value: btoa(word) };
  return until(`the write of ${word}`, () =>
    etcd.ask("/v3/kv/put", request, number).then(
      () => true,
      () => false,
    ),
  );
}

describe("a cache of keys in etcd", () => {
  const etcd = shared(startEtcd);
  beforeEach(async () => {
    await etcd.clear();
    await etcd.put("/words/a", "alpha");
    await etcd.put("/wordless", "nothing");
  });
  const proxy = fresh(() => StreamProxy.start(etcd.port));

  it("shows what the list had, then what is made, changed and removed, and no other key", async () => {
    await using reader = new Reader(proxy.url);
    await reader.shows("alpha");
    await etcd.put("/words/b", "beta");
    await etcd.put("/words/a", "alef");
    await etcd.put("/wordz", "other");
    await reader.shows("alef,beta");
    await etcd.remove("/words/a");
    await reader.shows("beta");
    const seen = reader.changes.map(({ key, before, after }) => [key, before, after]);
    expect(seen).toEqual([
      ["a", undefined, "alpha"],
      ["b", undefined, "beta"],
      ["a", "alpha", "alef"],
      ["a", "alef", undefined],
    ]);
    expect([reader.lists, reader.streams, reader.problems]).toEqual([1, 1, []]);
  });

  it("leaves out a value that cannot be read, says so, and keeps all others", async () => {
    await using reader = new Reader(proxy.url);
    await reader.shows("alpha");
    await etcd.put("/words/b", "unreadable");
    await etcd.put("/words/c", "gamma");
    await reader.shows("alpha,gamma");
    expect(reader.problems).toEqual(["words: b cannot be read: it is no word"]);
    await etcd.put("/words/b", "beta");
    await reader.shows("alpha,beta,gamma");
  });

  it("goes on where it was when its stream breaks: no second list, nothing missed", async () => {
    await using reader = new Reader(proxy.url);
    await reader.shows("alpha");
    proxy.refuse();
    await until("the loss to be noticed", () => !reader.isFollowing);
    await until("the copy to be out of use", () => !reader.cache.isUsable);
    await etcd.put("/words/b", "beta");
    await etcd.put("/words/b", "bet");
    await etcd.remove("/words/a");
    proxy.accept();
    await reader.shows("bet");
    expect(reader.lists).toBe(1);
    // Each change is told, although only the last state is left.
    expect(reader.changes.slice(1).map(({ after }) => after)).toEqual(["beta", "bet", undefined]);
  });

  it("reads the list anew when the changes since have been compacted away", async () => {
    await using reader = new Reader(proxy.url);
    await reader.shows("alpha");
    proxy.refuse();
    await until("the loss to be noticed", () => !reader.isFollowing);
    await etcd.remove("/words/a");
    await etcd.put("/words/b", "beta");
    await etcd.compact();
    proxy.accept();
    await reader.shows("beta");
    expect(reader.lists).toBe(2);
    expect(reader.changes.at(-1)).toEqual({ key: "a", before: "alpha", after: undefined });
  });

  it("notices a stream that has fallen silent, and begins it anew", async () => {
    await using reader = new Reader(proxy.url, { limits: { try: 500 } }, { heartbeatMs: 300 });
    await reader.shows("alpha");
    proxy.fallSilent();
    await etcd.put("/words/b", "beta");
    await until("the silence to be noticed", () => !reader.isFollowing && reader.problems.length > 0);
    expect(reader.words).toBe("alpha");
    proxy.accept();
    await reader.shows("alpha,beta");
    expect(reader.lists).toBe(1);
  });

  it("is told where etcd is while nothing of its own changes, and begins there", async () => {
    await using busy = await startEtcd({ args: ["--watch-progress-notify-interval=100ms"] });
    await busy.put("/words/a", "alpha");
    await using through = await StreamProxy.start(busy.port);
    await using reader = new Reader(through.url);
    await reader.shows("alpha");
    for (let count = 0; count < 20; count++) await busy.put("/other", String(count));
    await Bun.sleep(500);
    through.refuse();
    await busy.compact();
    through.accept();
    await busy.put("/words/b", "beta");
    await reader.shows("alpha,beta");
    expect(reader.lists).toBe(1);
  });

  it("reads the list anew when etcd's data have come from a backup, whose revisions are lower", async () => {
    await using restored = await startEtcd();
    for (const word of ["alpha", "beta", "gamma"]) await restored.put(`/words/${word}`, word);
    await using reader = new Reader(restored.endpoints);
    await reader.shows("alpha,beta,gamma");
    await restored.stopMember(0);
    rmSync(join(restored.dir, "m0"), { recursive: true });
    await restored.startMember(0);
    await restored.put("/words/alpha", "alpha");
    await reader.shows("alpha");
    expect(reader.lists).toBeGreaterThan(1);
  });

  it("asks for a new token when the member has forgotten the old one, and says so when it may not read", async () => {
    await using guarded = await startEtcd();
    await guarded.put("/words/a", "alpha");
    for (const name of ["root", "reader"]) {
      await guarded.ask("/v3/auth/user/add", { name, password: `${name}-secret` });
      await guarded.ask("/v3/auth/role/add", { name });
      await guarded.ask("/v3/auth/user/grant", { user: name, role: name });
    }
    const permission = { permType: "READ", key: btoa("/words/"), range_end: btoa("/words0") };
    await guarded.ask("/v3/auth/role/grant", { name: "reader", perm: permission });
    await guarded.ask("/v3/auth/enable");
    const asRoot = async () => String((await guarded.ask("/v3/auth/authenticate", { name: "root", password: "root-secret" })).token);
    await using reader = new Reader(guarded.endpoints, {}, { env: { ETCD_USERNAME: "reader", ETCD_PASSWORD: "reader-secret" } });
    await reader.shows("alpha");

    // Simple tokens are in the member's memory only.
    await guarded.stopMember(0);
    await until("the loss to be noticed", () => !reader.isFollowing);
    await guarded.startMember(0);
    const value = { key: btoa("/words/b"), value: btoa("beta") };
    await guarded.ask("/v3/kv/put", value, 0, await asRoot());
    await reader.shows("alpha,beta");

    const revoked = { role: "reader", key: btoa("/words/"), range_end: btoa("/words0") };
    await guarded.ask("/v3/auth/role/revoke", revoked, 0, await asRoot());
    await guarded.stopMember(0);
    await until("the loss to be noticed", () => !reader.isFollowing);
    await guarded.startMember(0);
    await until("the refusal", () => reader.cache.state.problem?.includes("permission denied") === true);
    expect(reader.problems.join()).not.toContain("secret");
    await guarded.ask("/v3/auth/role/grant", { name: "reader", perm: permission }, 0, await asRoot());
    await reader.shows("alpha,beta");
  });
});

describe("a cache of keys in an etcd of three members", () => {
  it("goes on with another member when the one that it follows dies, each in its turn", async () => {
    await using etcd = await startEtcd({ members: 3 });
    await etcd.put("/words/a", "alpha");
    await using reader = new Reader(etcd.endpoints, { random: () => 0, limits: { firstTry: 1_000 } }, { heartbeatMs: 1_500 });
    await reader.shows("alpha");
    for (const [number, word] of ["beta", "gamma", "zeta"].entries()) {
      await etcd.stopMember(number);
      await write(etcd, word, (number + 1) % 3);
      await until(word, () => reader.cache.get(word) === word);
      await etcd.startMember(number);
    }
    await reader.shows("alpha,beta,gamma,zeta");
    expect(reader.lists).toBe(1);
  });

  it("goes on with another member when its own stands still, and when its own is taken out of the cluster", async () => {
    await using etcd = await startEtcd({ members: 3 });
    await etcd.put("/words/a", "alpha");
    await using reader = new Reader(etcd.endpoints, { random: () => 0, limits: { firstTry: 500 } }, { heartbeatMs: 1_500 });
    await reader.shows("alpha");
    etcd.freezeMember(0, "SIGSTOP");
    await write(etcd, "beta", 1);
    await until("beta", () => reader.cache.get("beta") === "beta");
    etcd.freezeMember(0, "SIGCONT");
    await etcd.ready(0);

    const { header } = await etcd.ask("/v3/maintenance/status", {}, 1);
    const id = typeof header === "object" && header !== null && "member_id" in header ? header.member_id : undefined;
    await until("the removal", () =>
      etcd.ask("/v3/cluster/member/remove", { ID: id }, 2).then(
        () => true,
        () => false,
      ),
    );
    await write(etcd, "gamma", 2);
    await until("gamma", () => reader.cache.get("gamma") === "gamma");
    expect(reader.lists).toBe(1);
  });
});
