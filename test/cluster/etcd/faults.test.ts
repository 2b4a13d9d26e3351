/** What etcd can refuse, and what others can store: the error says it, nothing is lost, and it works again when the cause is gone. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DatastoreError } from "../../../lib/datastore/errors.ts";
import { EtcdClient } from "../../../lib/datastore/etcd/etcd-client.ts";
import { KeyValueStore } from "../../../lib/datastore/etcd/key-value-store.ts";
import { resolveEtcdSettings } from "../../../lib/datastore/etcd/settings.ts";
import { startEtcd } from "../../support/etcd/etcd.ts";
import { NO_ETCD } from "../../support/etcd/no-etcd.ts";
import { shared } from "../../support/fixtures.ts";
import { emptyBlock, samplePool } from "../../support/samples.ts";
import { TestAuthority } from "../../support/tls-server-certificates.ts";
import { openDatastoreAt, openWith } from "./open-datastore.ts";

const HANDLE = { id: "net.c1", blocks: { "10.60.0.0/26": 1 } };

describe("etcd with stored values that nobody can read", () => {
  const etcd = shared(startEtcd);
  beforeEach(() => etcd.clear());

  it.each([
    ["no JSON", "{"],
    ["no UTF-8", "\u0000\ufffd"],
    ["another shape", '{"cidr":"10.60.0.0/26","allocations":"none"}'],
  ])("names the key of a block that is %s, leaves it as it is, and lists the others", async (_, value) => {
    const damaged: DatastoreError[] = [];
    await using datastore = openDatastoreAt(etcd.endpoints, {}, {}, (error) => damaged.push(error));
    const key = "/calico/ipam/v2/assignment/ipv4/block/10.60.0.0-26";
    await etcd.put(key, value);
    const other = emptyBlock("10.60.0.64/26", 64);
    await datastore.blocks.create(other.cidr, other);

    await expect(datastore.blocks.get("10.60.0.0/26")).rejects.toMatchObject({
      failure: "invalid",
      word: "datastore-object-invalid",
      message: expect.stringContaining(key),
    });
    const listed = await datastore.blocks.list();
    expect(listed.map(({ value: { cidr } }) => cidr)).toContain("10.60.0.64/26");
    expect((await etcd.contents()).get(key)).toBe(value);

    await etcd.remove(key);
    const block = emptyBlock("10.60.0.0/26", 64);
    await datastore.blocks.create(block.cidr, block);
    expect((await datastore.blocks.list()).length).toBe(2);
  });

  it.each([1_700_000, 3_000_000])("refuses a value of %i bytes at the first try, and keeps serving", async (bytes) => {
    await using datastore = openDatastoreAt(etcd.endpoints);
    const before = await etcd.requests();
    await expect(
      datastore.handles.create("net.large", { ...HANDLE, id: "net.large", blocks: { ["x".repeat(bytes)]: 1 } }),
    ).rejects.toMatchObject({
      failure: "invalid",
      message: expect.stringMatching(/IPAMHandle\(.*net\.large\): .*(message larger than max|request is too large)/),
    });
    expect((await etcd.requests()).Txn ?? 0).toBeLessThanOrEqual((before.Txn ?? 0) + 1);
    expect(await datastore.handles.list()).toEqual([]);
    await datastore.handles.create(HANDLE.id, HANDLE);
  });

  it("keeps what it does not know of an object that it changes", async () => {
    await using datastore = openDatastoreAt(etcd.endpoints);
    const key = "/calico/resources/v3/projectcalico.org/ippools/pool";
    const metadata = { name: "pool", uid: "u1", creationTimestamp: "2026-01-01T00:00:00Z", annotations: { a: "b" } };
    const stored = {
      kind: "IPPool",
      apiVersion: "projectcalico.org/v3",
      metadata,
      spec: { cidr: "10.60.0.0/24", ipipMode: "Always" },
      status: { x: 1 },
    };
    await etcd.put(key, JSON.stringify(stored));
    const pool = await datastore.pools.get("pool");
    if (pool === undefined) throw new Error("the pool is missing");
    await datastore.pools.update("pool", { ...pool.value, disabled: true }, pool.revision);
    expect(JSON.parse((await etcd.contents()).get(key) ?? "")).toMatchObject({
      metadata,
      spec: { cidr: "10.60.0.0/24", ipipMode: "Always", disabled: true },
      status: { x: 1 },
    });
  });

  it("reads a long list anew when the revision of its first page was compacted, and gives it whole", async () => {
    for (let number = 0; number < 12; number++) {
      const success = Array.from({ length: 100 }, (_, index) => ({
        requestPut: { key: btoa(`/calico/ipam/v2/handle/net.${number}-${index}`), value: btoa('{"block":{},"deleted":false}') },
      }));
      await etcd.ask("/v3/kv/txn", { success });
    }
    const client = new EtcdClient(resolveEtcdSettings({ ...NO_ETCD, endpoints: etcd.endpoints }, {}));
    const ask = client.ask.bind(client);
    let pages = 0;
    client.ask = async (path, request, read) => {
      if (++pages === 2) {
        await etcd.put("/other", "1");
        await etcd.compact();
      }
      return ask(path, request, read);
    };
    const listed = await new KeyValueStore(client).list("/calico/ipam/v2/handle/");
    expect(new Set(listed.map(({ key }) => key)).size).toBe(1200);
    expect(listed.length).toBe(1200);
    // Two of the list that failed, three of the one that came whole.
    expect(pages).toBe(5);
    client.close();
  });
});

describe("etcd with a full backend", () => {
  it("refuses writes with what to do, keeps everything, and takes them again after the alarm is disarmed", async () => {
    await using etcd = await startEtcd({ args: ["--quota-backend-bytes=2097152"] });
    await using datastore = openDatastoreAt(etcd.endpoints);
    const made = await datastore.handles.create(HANDLE.id, HANDLE);
    const filling = "x".repeat(1_000_000);
    await expect(
      (async () => {
        for (let number = 0; number < 8; number++) await etcd.put(`/filling/${number}`, filling);
      })(),
    ).rejects.toThrow("database space exceeded");

    await expect(datastore.handles.create("net.c2", { ...HANDLE, id: "net.c2" })).rejects.toMatchObject({
      failure: "unavailable",
      message: expect.stringMatching(/database space exceeded.*disarm the alarm/s),
    });
    expect((await datastore.handles.list()).map(({ value }) => value)).toEqual([HANDLE]);

    await etcd.ask("/v3/kv/deleterange", { key: btoa("/filling/"), range_end: btoa("/filling0") });
    await etcd.compact();
    await etcd.ask("/v3/maintenance/defragment");
    const { alarms } = await etcd.ask("/v3/maintenance/alarm", { action: "GET" });
    for (const alarm of Array.isArray(alarms) ? alarms : []) await etcd.ask("/v3/maintenance/alarm", { action: "DEACTIVATE", ...alarm });
    await datastore.handles.create("net.c2", { ...HANDLE, id: "net.c2" });
    await datastore.handles.delete(HANDLE.id, made.revision);
  });
});

describe("etcd with users", () => {
  const etcd = shared(startEtcd);
  let root: string;
  const asRoot = (path: string, request: object) => etcd.ask(path, request, 0, root);
  const as = (name: string) => ({ ETCD_USERNAME: name, ETCD_PASSWORD: `${name}-password` });
  const grant = (permType: string) =>
    asRoot("/v3/auth/role/grant", { name: "plugins", perm: { permType, key: btoa("/calico/"), range_end: btoa("/calico0") } });

  beforeAll(async () => {
    root = "";
    for (const name of ["root", "plugins"]) {
      await asRoot("/v3/auth/user/add", { name, password: `${name}-password` });
      await asRoot("/v3/auth/role/add", { name });
      await asRoot("/v3/auth/user/grant", { user: name, role: name });
    }
    await grant("READ");
    await asRoot("/v3/auth/enable", {});
    const { token } = await etcd.ask("/v3/auth/authenticate", { name: "root", password: "root-password" });
    root = String(token);
  });

  it("says which permission a user lacks that may only read, and serves the same client when it is granted", async () => {
    await using datastore = openDatastoreAt(etcd.endpoints, {}, as("plugins"));
    expect(await datastore.handles.get(HANDLE.id)).toBeUndefined();
    await expect(datastore.handles.create(HANDLE.id, HANDLE)).rejects.toMatchObject({
      failure: "unauthorized",
      word: "datastore-forbidden",
      message: expect.stringMatching(/permission denied.*grant user "plugins" the permission readwrite on the prefix \/calico\//s),
    });
    await grant("READWRITE");
    const made = await datastore.handles.create(HANDLE.id, HANDLE);
    await grant("READ");
    await expect(datastore.handles.delete(HANDLE.id, made.revision)).rejects.toMatchObject({ failure: "unauthorized" });
    await grant("READWRITE");
    await datastore.handles.delete(HANDLE.id, made.revision);
  });

  it.each([
    ["without a user", {}, "set ETCD_USERNAME and ETCD_PASSWORD"],
    ["with a wrong password", { ...as("plugins"), ETCD_PASSWORD: "not-the-password" }, 'check the password of etcd\'s user "plugins"'],
  ])("refuses a client %s, and no message holds the password", async (_, env, hint) => {
    await using datastore = openDatastoreAt(etcd.endpoints, {}, env);
    const failure = await datastore.pools.list().catch((error: unknown) => error);
    expect(failure).toMatchObject({ failure: "unauthorized", message: expect.stringContaining(hint) });
    expect(String(failure)).not.toContain("not-the-password");
  });

  it("renews a token that the member has forgotten, in the middle of a client's life", async () => {
    await using datastore = openDatastoreAt(etcd.endpoints, {}, as("plugins"));
    expect(await datastore.pools.list()).toEqual([]);
    // Simple tokens live in the member's memory.
    await etcd.stopMember(0);
    await etcd.startMember(0);
    expect(await datastore.pools.list()).toEqual([]);
    const { token } = await etcd.ask("/v3/auth/authenticate", { name: "root", password: "root-password" });
    root = String(token);
  });
});

describe("etcd with TLS", () => {
  const authority = new TestAuthority();
  const dir = mkdtempSync(join(tmpdir(), "tortie-etcd-tls-"));
  const file = (name: string, text: string) => {
    writeFileSync(join(dir, name), text);
    return join(dir, name);
  };
  const server = authority.issue("/CN=etcd", "IP:127.0.0.1");
  const client = authority.issue("/CN=plugins", undefined, 2, "clientAuth");
  const keys = {
    etcd_ca_cert_file: file("ca.crt", authority.certificate),
    etcd_cert_file: file("client.crt", client.certificate),
    etcd_key_file: file("client.key", client.key),
  };
  const impatient = { limits: { refused: 500, request: 3_000, least: 3_000 } };
  const tls = { certificate: file("server.crt", server.certificate), key: file("server.key", server.key), ca: keys.etcd_ca_cert_file };
  const etcd = shared(() => startEtcd({ tls }));

  it("is reached with the files of the configuration, and of the environment", async () => {
    await using configured = openDatastoreAt(etcd.endpoints, keys);
    await configured.handles.create(HANDLE.id, HANDLE);
    const env = { ETCD_CA_CERT_FILE: keys.etcd_ca_cert_file, ETCD_CERT_FILE: keys.etcd_cert_file, ETCD_KEY_FILE: keys.etcd_key_file };
    await using fromEnvironment = openDatastoreAt(etcd.endpoints, {}, env);
    expect((await fromEnvironment.handles.get(HANDLE.id))?.value).toEqual(HANDLE);
  });

  it("is not spoken to when another authority has signed its certificate: the message says so, and no key", async () => {
    const other = new TestAuthority("somebody-else");
    await using datastore = openWith(etcd.endpoints, impatient, { ...keys, etcd_ca_cert_file: file("other.crt", other.certificate) });
    const failure = await datastore.pools.list().catch((error: unknown) => error);
    expect(failure).toMatchObject({ failure: "unavailable", message: expect.stringMatching(/certificate/) });
    expect(String(failure)).not.toContain("PRIVATE KEY");
  });

  it("refuses a client without a certificate, or with a stranger's", async () => {
    const stranger = new TestAuthority("somebody-else").issue("/CN=plugins", undefined, 2, "clientAuth");
    const strange = { etcd_cert_file: file("s.crt", stranger.certificate), etcd_key_file: file("s.key", stranger.key) };
    for (const shown of [{ etcd_ca_cert_file: keys.etcd_ca_cert_file }, { ...keys, ...strange }]) {
      await using datastore = openWith(etcd.endpoints, impatient, shown);
      await expect(datastore.pools.create("pool", samplePool("pool", "10.60.0.0/24"))).rejects.toMatchObject({ failure: "unavailable" });
    }
    await using datastore = openDatastoreAt(etcd.endpoints, keys);
    expect(await datastore.pools.list()).toEqual([]);
  });
});
