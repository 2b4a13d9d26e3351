/** Whether a request to etcd is tried again, by which member, and what is said when it is not: members refuse here when told to. */
import { EtcdClient } from "../../../../../lib/datastore/etcd/etcd-client.ts";
import { KeyValueStore } from "../../../../../lib/datastore/etcd/key-value-store.ts";
import { closing } from "../../../../support/closing.ts";
import { type Asked, MemoryEtcd, type Reply } from "../../../../support/etcd/memory-etcd.ts";
import { settingsOf } from "../../../../support/etcd/no-etcd.ts";
import { fresh } from "../../../../support/fixtures.ts";

const HANDLE = { id: "net.c1", blocks: { "10.60.0.0/26": 1 } };
const KEY = "/calico/ipam/v2/handle/net.c1";
/** Nothing listens there. */
const NOBODY = "http://127.0.0.1:1";
const CODES = { permissionDenied: 7, resourceExhausted: 8, outOfRange: 11, unavailable: 14 };

const refusal = (code: number, message: string): Reply => ({ status: 400, body: JSON.stringify({ error: message, code, message }) });

const etcd = fresh(() => new MemoryEtcd());
const datastore = fresh(() => etcd.datastore());

describe("a request that a member refuses", () => {
  it.each([
    ["for want of a right", CODES.permissionDenied, "etcdserver: permission denied", "unauthorized", /permission denied.*grant/],
    ["as too large", CODES.resourceExhausted, "grpc: received message larger than max", "invalid", /larger than max/],
    ["as its disk is full", CODES.resourceExhausted, "etcdserver: mvcc: database space exceeded", "unavailable", /raise its quota/],
  ])("%s is not tried again, and the member's words are told", async (_, code, words, failure, message) => {
    etcd.intercept = () => refusal(code, words);
    await expect(datastore.handles.get("net.c1")).rejects.toMatchObject({ failure, message: expect.stringMatching(message) });
    expect(etcd.asked).toHaveLength(1);
  });

  it.each([
    ["as it has no leader", CODES.unavailable, "etcdserver: no leader"],
    ["as it is busy", CODES.resourceExhausted, "etcdserver: too many requests"],
  ])("%s is tried again", async (_, code, words) => {
    etcd.intercept = () => (etcd.asked.length === 1 ? refusal(code, words) : undefined);
    expect(await datastore.handles.get("net.c1")).toBeUndefined();
    expect(etcd.asked).toHaveLength(2);
  });

  it("because the member does not run goes to the next one, however little time there is for those that do not run", async () => {
    etcd.put(KEY, '{"block":{"10.60.0.0/26":1}}');
    // The members are asked in their order.
    const settings = settingsOf(`${NOBODY},${etcd.url}`);
    const client = closing(new EtcdClient(settings, { random: () => 0, limits: { request: 5_000, least: 5_000, refused: 0 } }));
    expect(await new KeyValueStore(client).get(KEY)).toMatchObject({ key: KEY });
  });

  describe("because of its token", () => {
    const settings = () => settingsOf(etcd.url, { ETCD_USERNAME: "plugins", ETCD_PASSWORD: "p" });

    /** @param good the only token that is taken: the n-th that was given is `t<n>` @returns with which tokens something was asked */
    function guarded(good: string, code: number, words: string): readonly (string | undefined)[] {
      const tokens: (string | undefined)[] = [];
      let given = 0;
      etcd.intercept = ({ path, authorization }) => {
        if (path === "/v3/auth/authenticate") {
          return { status: 200, body: JSON.stringify({ header: { revision: "1" }, token: `t${++given}` }) };
        }
        tokens.push(authorization);
        return authorization === good ? undefined : refusal(code, words);
      };
      return tokens;
    }

    it.each([
      ["does not know", 16, "etcdserver: invalid auth token"],
      ["finds too old", 3, "etcdserver: revision of auth store is old"],
    ])("which it %s is tried again with a new one", async (_, code, words) => {
      const tokens = guarded("t2", code, words);
      const client = closing(new EtcdClient(settings()));
      expect(await new KeyValueStore(client).get(KEY)).toBeUndefined();
      expect(tokens).toEqual(["t1", "t2"]);
    });

    it("and its next one too fails", async () => {
      const tokens = guarded("none", 16, "etcdserver: invalid auth token");
      const client = closing(new EtcdClient(settings()));
      await expect(new KeyValueStore(client).get(KEY)).rejects.toMatchObject({ code: 16 });
      expect(tokens).toEqual(["t1", "t2"]);
    });
  });

  it("leaves the next one less time, as all that failed comes out of one purse", async () => {
    const limits = { request: 400, patience: 400, least: 1 };
    etcd.intercept = async () => {
      await Bun.sleep(40);
      return refusal(CODES.unavailable, "etcdserver: no leader");
    };
    await using impatient = etcd.datastore({ limits });
    await expect(impatient.handles.get("net.c1")).rejects.toMatchObject({ failure: "unavailable" });
    const first = etcd.asked.length;
    await expect(impatient.handles.get("net.c1")).rejects.toMatchObject({ failure: "unavailable" });
    expect(etcd.asked.length - first).toBeLessThan(first / 2);
  });
});

describe("a list whose pages etcd has compacted meanwhile", () => {
  const compacted = refusal(CODES.outOfRange, "etcdserver: mvcc: required revision has been compacted");
  const isLaterPage = ({ request }: Asked) => request.revision !== undefined;

  beforeEach(() => {
    for (let index = 0; index < 600; index++) etcd.put(`/calico/ipam/v2/handle/net.c${index}`, '{"block":{}}');
  });

  it("is read anew", async () => {
    let refused = 0;
    etcd.intercept = (asked) => (isLaterPage(asked) && refused++ === 0 ? compacted : undefined);
    expect(await datastore.handles.list()).toHaveLength(600);
    expect(etcd.asked).toHaveLength(4);
  });

  it("is given up at the third time", async () => {
    etcd.intercept = (asked) => (isLaterPage(asked) ? compacted : undefined);
    await expect(datastore.handles.list()).rejects.toMatchObject({ failure: "unavailable" });
    expect(etcd.asked).toHaveLength(6);
  });
});

describe("a stream that no member begins", () => {
  it("is asked of each of them once", async () => {
    using other = new MemoryEtcd();
    for (const member of [etcd, other]) member.intercept = () => refusal(CODES.unavailable, "etcdserver: no leader");
    const client = closing(new EtcdClient(settingsOf(`${etcd.url},${other.url}`)));
    await expect(client.stream("/v3/watch", {}, new AbortController().signal)).rejects.toMatchObject({ code: CODES.unavailable });
    expect([etcd.asked.length, other.asked.length]).toEqual([1, 1]);
  });
});

describe("a stream that fails for a moment", () => {
  it("leaves the token as it is", async () => {
    etcd.intercept = ({ path }) => {
      if (path === "/v3/auth/authenticate") return { status: 200, body: JSON.stringify({ header: { revision: "1" }, token: "t" }) };
      return path === "/v3/watch" ? refusal(CODES.unavailable, "etcdserver: no leader") : undefined;
    };
    const settings = settingsOf(etcd.url, { ETCD_USERNAME: "plugins", ETCD_PASSWORD: "p" });
    const client = closing(new EtcdClient(settings));
    await expect(client.stream("/v3/watch", {}, new AbortController().signal)).rejects.toMatchObject({ code: CODES.unavailable });
    expect(await new KeyValueStore(client).get(KEY)).toBeUndefined();
    expect(etcd.count("authenticate")).toBe(1);
  });
});

describe("an update of an object", () => {
  it("that this client has read costs one request", async () => {
    const { revision } = await datastore.handles.create("net.c1", HANDLE);
    etcd.asked.length = 0;
    await datastore.handles.update("net.c1", { ...HANDLE, blocks: {} }, revision);
    expect(etcd.asked).toHaveLength(1);
  });

  it("that another client has read, and that was written since, says at which revision it is", async () => {
    await using other = etcd.datastore();
    const made = await datastore.handles.create("net.c1", HANDLE);
    const now = await datastore.handles.update("net.c1", { ...HANDLE, blocks: {} }, made.revision);
    await expect(other.handles.update("net.c1", HANDLE, made.revision)).rejects.toMatchObject({
      failure: "conflict",
      message: `update conflict: IPAMHandle(${KEY}) is at revision ${now.revision}, not ${made.revision}`,
    });
  });

  it("keeps the members that other clients have given it", async () => {
    etcd.put(KEY, '{"block":{"10.60.0.0/26":1},"newField":[1]}');
    await using other = etcd.datastore();
    const known = await datastore.handles.get("net.c1");
    await other.handles.update("net.c1", { ...HANDLE, blocks: { "10.60.0.0/26": 2 } }, known?.revision ?? "");
    expect(JSON.parse(etcd.get(KEY) ?? "")).toEqual({ block: { "10.60.0.0/26": 2 }, deleted: false, newField: [1] });
  });
});
