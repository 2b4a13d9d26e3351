import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Environment } from "../../../../../lib/cni/protocol.ts";
import { exportedSettings } from "../../../../../lib/config/datastore-choice.ts";
import { decodeNetworkConfig } from "../../../../../lib/config/decode.ts";
import { resolveEtcdSettings } from "../../../../../lib/datastore/etcd/settings.ts";
import type { JsonObject } from "../../../../../lib/json/value.ts";
import { TemporaryDirectory } from "../../../../support/fixtures.ts";

const dir = new TemporaryDirectory();
afterAll(() => dir[Symbol.dispose]());

function file(name: string, text: string): string {
  writeFileSync(join(dir.path, name), text);
  return join(dir.path, name);
}

const CERTIFICATE = file("c.crt", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n");
const KEY = file("c.key", "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n");

function resolve(keys: JsonObject, env: Environment = {}) {
  return resolveEtcdSettings(decodeNetworkConfig({ name: "net1", ...keys }).etcd, env);
}

function urlsOf(keys: JsonObject, env: Environment = {}): readonly string[] | string {
  const { members } = resolve(keys, env);
  return "domain" in members ? members.domain : members.servers.map(({ url }) => url);
}

describe("The members of etcd", () => {
  it.each<[string, JsonObject, Environment, readonly string[] | string]>([
    ["the key", { etcd_endpoints: "http://a:2379" }, {}, ["http://a:2379"]],
    ["the key, several with blanks", { etcd_endpoints: "http://a:1, https://[fd00::1]:2 ," }, {}, ["http://a:1", "https://[fd00::1]:2"]],
    ["the key before the plain variable", { etcd_endpoints: "http://a:1" }, { ETCD_ENDPOINTS: "http://b:1" }, ["http://a:1"]],
    ["the variable with CALICO_ before all", { etcd_endpoints: "http://a:1" }, { CALICO_ETCD_ENDPOINTS: "http://b:1" }, ["http://b:1"]],
    ["the plain variable", {}, { ETCD_ENDPOINTS: "http://b:1" }, ["http://b:1"]],
    ["a domain", { etcd_discovery_srv: "example.org" }, {}, "example.org"],
    ["the domain of the environment", {}, { ETCD_DISCOVERY_SRV: "example.org" }, "example.org"],
    ["authority alone", { etcd_authority: "a:4001" }, {}, ["http://a:4001"]],
    ["authority and scheme", { etcd_authority: "a:4001", etcd_scheme: "https" }, {}, ["https://a:4001"]],
    ["authority of the environment", {}, { ETCD_AUTHORITY: "a:4001", CALICO_ETCD_SCHEME: "https" }, ["https://a:4001"]],
    ["endpoints before authority", { etcd_endpoints: "http://b:1", etcd_authority: "a:4001" }, {}, ["http://b:1"]],
  ])("come from %s", (_, keys, env, expected) => {
    expect(urlsOf(keys, env)).toEqual(expected);
  });

  it.each<[string, JsonObject, string]>([
    ["nothing", {}, "no etcd endpoints specified"],
    ["only commas", { etcd_endpoints: " , " }, "no etcd endpoints specified: key etcd_endpoints is empty"],
    ["both ways", { etcd_endpoints: "http://a", etcd_discovery_srv: "example.org" }, "multiple discovery or bootstrap flags specified"],
    ["no scheme", { etcd_endpoints: "a:2379" }, "it has no scheme"],
    ["another scheme", { etcd_endpoints: "unix:///run/etcd" }, "is not the http or https URL of an etcd member"],
  ])("are refused when the configuration says %s", (_, keys, message) => {
    expect(() => resolve(keys)).toThrow(expect.objectContaining({ word: "netconf-value", message: expect.stringContaining(message) }));
  });

  it("are refused with a password in their URL, which the message does not repeat", () => {
    expect(() => resolve({ etcd_endpoints: "http://root:hunter2@a:2379" })).toThrow(/set ETCD_USERNAME and ETCD_PASSWORD instead/);
    expect(() => resolve({ etcd_endpoints: "http://root:hunter2@a:2379" })).not.toThrow(/hunter2/);
  });
});

describe("Who we are to etcd", () => {
  it("is a user of the environment, and a certificate of files", () => {
    const keys = { etcd_endpoints: "https://a:2379", etcd_cert_file: CERTIFICATE, etcd_key_file: KEY, etcd_ca_cert_file: CERTIFICATE };
    const settings = resolve(keys, { ETCD_USERNAME: "plugins", ETCD_PASSWORD: "secret", CALICO_ETCD_PASSWORD: "better" });
    expect(settings).toMatchObject({
      user: { name: "plugins", password: "better" },
      certificate: { certificate: expect.stringContaining("CERTIFICATE"), key: expect.stringContaining("PRIVATE KEY") },
      trust: { certificateAuthority: expect.stringContaining("CERTIFICATE"), skipVerify: false },
    });
  });

  it.each<[string, JsonObject, string]>([
    ["half a pair", { etcd_cert_file: CERTIFICATE }, "etcd_key_file (or ETCD_KEY_FILE) is not set"],
    ["a file that is not there", { etcd_ca_cert_file: "/nowhere/ca" }, "unable to read key etcd_ca_cert_file (/nowhere/ca)"],
    ["a file of another kind", { etcd_ca_cert_file: KEY }, "holds no PEM block of kind CERTIFICATE"],
  ])("is refused with %s", (_, keys, message) => {
    const asked = { etcd_endpoints: "https://a:2379", ...keys };
    expect(() => resolve(asked)).toThrow(expect.objectContaining({ word: "netconf-value", message: expect.stringContaining(message) }));
  });

  it("is told to an IPAM plugin of its own by variables, without the password", () => {
    const config = decodeNetworkConfig({ name: "net1", etcd_authority: "a:4001", etcd_scheme: "https", etcd_key_file: KEY });
    expect(exportedSettings(config, "etcdv3")).toEqual({ ETCD_AUTHORITY: "a:4001", ETCD_SCHEME: "https", ETCD_KEY_FILE: KEY });
  });
});
