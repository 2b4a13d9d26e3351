import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Environment } from "../../../../../lib/cni/protocol.ts";
import { decodeNetworkConfig } from "../../../../../lib/config/decode.ts";
import type { JsonObject } from "../../../../../lib/json/value.ts";
import type { ApiConfig } from "../../../../../lib/kubernetes/config/api-config.ts";
import { resolveApiConfig } from "../../../../../lib/kubernetes/config/resolve.ts";
import { fresh, TemporaryDirectory } from "../../../../support/fixtures.ts";
import { kubeconfigOf } from "../../../../support/kubeconfig.ts";
import { thrownBy } from "../../../../support/thrown.ts";

const pem = (kind: string, body: string) => `-----BEGIN ${kind}-----\n${body}\n-----END ${kind}-----\n`;
const CA = pem("CERTIFICATE", "authority");
const CERTIFICATE = pem("CERTIFICATE", "mine");
const KEY = pem("EC PRIVATE KEY", "mine");

type Fields = Readonly<Record<string, unknown>>;

describe("resolveApiConfig", () => {
  const dir = fresh(() => new TemporaryDirectory());
  let kubeconfig: string;
  beforeEach(() => {
    kubeconfig = join(dir.path, "kubeconfig");
    write("ca.crt", CA);
    write("me.crt", CERTIFICATE);
    write("me.key", KEY);
    write("token", "from-file\n");
  });

  function write(name: string, text: string): string {
    writeFileSync(join(dir.path, name), text);
    return join(dir.path, name);
  }

  const resolve = (netconf: JsonObject = { kubernetes: { kubeconfig } }, env: Environment = {}): ApiConfig =>
    resolveApiConfig(decodeNetworkConfig(netconf), env);

  /** What is given replaces or joins the members of the cluster. */
  function writeKubeconfig(cluster: Fields, user?: Fields, name = "kubeconfig"): string {
    return write(name, JSON.stringify(kubeconfigOf({ server: "https://10.96.0.1:443", ...cluster }, user)));
  }

  const refusal = (word: string, message: string | RegExp) =>
    expect.objectContaining({
      name: "TortieError",
      word,
      message: typeof message === "string" ? expect.stringContaining(message) : expect.stringMatching(message),
    });

  describe("reads a kubeconfig", () => {
    it("as Calico's installer writes it, in YAML with comments (C§9.5)", () => {
      write(
        "kubeconfig",
        `# Kubeconfig file for Calico CNI plugin.\napiVersion: v1\nkind: Config\nclusters:\n- name: local\n  cluster:\n    server: https://[fd00::1]:6443\n    certificate-authority-data: "${btoa(CA)}"\nusers:\n- name: calico\n  user:\n    token: abc.def-ghi\ncontexts:\n- name: calico-context\n  context:\n    cluster: local\n    user: calico\ncurrent-context: calico-context`,
      );

      expect(resolve()).toMatchObject({
        server: { url: "https://[fd00::1]:6443", hostname: "fd00::1", port: 6443, isTls: true, authority: "[fd00::1]:6443", basePath: "" },
        trust: { certificateAuthority: CA, serverName: undefined, skipVerify: false },
        identity: {
          description: `user "calico" of ${kubeconfig}`,
          authorization: "Bearer abc.def-ghi",
          certificate: undefined,
          plugin: undefined,
        },
        proxy: undefined,
        qps: 5,
        burst: 100,
      });
    });

    it("with paths that are relative to its folder", () => {
      writeKubeconfig(
        { "certificate-authority": "ca.crt" },
        { "client-certificate": "./me.crt", "client-key": join(dir.path, "me.key"), tokenFile: "token" },
      );

      expect(resolve()).toMatchObject({
        trust: { certificateAuthority: CA },
        identity: { certificate: { certificate: CERTIFICATE, key: KEY }, authorization: "Bearer from-file" },
      });
    });

    it("whose inline data beats its paths, and whose token file beats its token", () => {
      writeKubeconfig(
        { "certificate-authority": "nowhere", "certificate-authority-data": btoa(CA) },
        {
          "client-certificate": "nowhere",
          "client-certificate-data": btoa(CERTIFICATE),
          "client-key-data": btoa(KEY),
          token: "inline",
          tokenFile: "token",
        },
      );

      expect(resolve()).toMatchObject({
        trust: { certificateAuthority: CA },
        identity: { certificate: { certificate: CERTIFICATE, key: KEY }, authorization: "Bearer from-file" },
      });
    });

    it("with everything else a cluster may say", () => {
      writeKubeconfig({
        server: "https://rancher.example.org/k8s/clusters/c-1/",
        "insecure-skip-tls-verify": true,
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
        "certificate-authority": null,
      });

      expect(resolve()).toMatchObject({
        server: {
          url: "https://rancher.example.org:443/k8s/clusters/c-1",
          port: 443,
          basePath: "/k8s/clusters/c-1",
          authority: "rancher.example.org",
        },
        trust: { certificateAuthority: undefined, serverName: "kubernetes", skipVerify: true },
        identity: { authorization: undefined, certificate: undefined },
        proxy: "http://proxy:3128",
      });
    });

    it("with user name and password", () => {
      writeKubeconfig({}, { username: "me", password: "pässword" });

      expect(resolve().identity.authorization).toBe(`Basic ${Buffer.from("me:pässword").toString("base64")}`);
    });

    it("with a credential plugin, which is not run", () => {
      const exec = {
        apiVersion: "client.authentication.k8s.io/v1",
        command: "bin/login",
        args: ["a"],
        env: [{ name: "N", value: "v" }],
        installHint: "get it",
      };
      writeKubeconfig({ "certificate-authority": "ca.crt" }, { exec });

      expect(resolve().identity.plugin).toEqual({
        apiVersion: "client.authentication.k8s.io/v1",
        command: `${dir.path}/bin/login`,
        args: ["a"],
        env: { N: "v" },
        needsTerminal: false,
        installHint: "get it",
        cluster: undefined,
      });
    });

    it("and trusts the authorities of the machine where it names none", () => {
      writeKubeconfig({});

      expect(resolve(undefined, { SSL_CERT_FILE: join(dir.path, "ca.crt") }).trust.certificateAuthority).toBe(CA);
    });

    it("by the context that K8S_CURRENT_CONTEXT names", () => {
      const config = kubeconfigOf({ server: "https://10.96.0.1:443" });
      const clusters = [...config.clusters, { name: "d", cluster: { server: "http://other" } }];
      const contexts = [...config.contexts, { name: "y", context: { cluster: "d" } }];
      write("kubeconfig", JSON.stringify({ ...config, clusters, contexts }));

      expect(resolve(undefined, { K8S_CURRENT_CONTEXT: "y" })).toMatchObject({
        server: { url: "http://other:80", isTls: false },
        identity: { description: `nobody (context "y" of ${kubeconfig} names no user)`, authorization: undefined },
      });
    });

    it("of several files joined by a colon: missing ones are passed over, the first to say something counts", () => {
      mkdirSync(join(dir.path, "sub"));
      write("sub/token", "from-sub");
      const first = write("sub/one", JSON.stringify({ users: [{ name: "u", user: { tokenFile: "token" } }] }));
      const second = writeKubeconfig({}, { token: "from-second" });

      expect(resolve({}, { KUBECONFIG: `${dir.path}/nowhere:${first}:${second}` })).toMatchObject({
        server: { hostname: "10.96.0.1" },
        identity: { authorization: "Bearer from-sub", description: `user "u" of ${first}` },
      });
    });

    it("of two files of which one is missing", () => {
      const only = writeKubeconfig({}, { token: "only" });

      expect(resolve({}, { KUBECONFIG: `${dir.path}/nowhere:${only}` }).identity.authorization).toBe("Bearer only");
      expect(resolve({}, { KUBECONFIG: `${only}:${dir.path}/nowhere` }).identity.authorization).toBe("Bearer only");
    });

    it("once more when it is told to", () => {
      writeKubeconfig({}, { token: "old" });
      const before = resolve();
      writeKubeconfig({}, { token: "new" });

      expect(before.identity.authorization).toBe("Bearer old");
      expect(before.reload().identity.authorization).toBe("Bearer new");
    });
  });

  describe("names what is wrong with a kubeconfig:", () => {
    it.each<[string, string, RegExp]>([
      [
        "it is cut off",
        'apiVersion: v1\nclusters:\n- cluster:\n    server: "https://',
        /^error loading config file "DIR\/kubeconfig": yaml: .+/,
      ],
      ["it is no YAML (recording kubeconfig-garbage)", "{this is: [not", /^error loading config file "DIR\/kubeconfig": yaml: .+/],
      ["it is empty", "", /^DIR\/kubeconfig must be a mapping, not nothing$/],
      ["it is a text", "hello", /^DIR\/kubeconfig must be a mapping, not a string$/],
      ["it has several documents", "a: 1\n---\nb: 2\n", /^DIR\/kubeconfig must be a mapping, not a list$/],
      ["the current context is not there", "contexts: []\ncurrent-context: x", /^context "x" of DIR\/kubeconfig does not exist$/],
      ["it has no current context", "clusters: []", /^current-context of DIR\/kubeconfig is missing$/],
      ["its current context is no text", "current-context: 7", /^current-context of DIR\/kubeconfig must be a string, not a number$/],
      ["its contexts are no list", "contexts: {}\ncurrent-context: x", /^contexts of DIR\/kubeconfig must be a list, not a mapping$/],
      [
        "a context is no mapping",
        "contexts: [7]\ncurrent-context: x",
        /^contexts\[0\] of DIR\/kubeconfig must be a mapping, not a number$/,
      ],
      [
        "the context names an unknown cluster",
        "contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x",
        /^cluster of context "?x"? of DIR\/kubeconfig is "c", which is not among the clusters$/,
      ],
      [
        "the context names no cluster",
        "contexts: [{name: x, context: {}}]\ncurrent-context: x",
        /^cluster of context "x" of DIR\/kubeconfig is missing, and no k8s_api_root is set$/,
      ],
    ])("%s", (_what, text, message) => {
      write("kubeconfig", text);

      expect(() => resolve()).toThrow(refusal("kubeconfig-invalid", new RegExp(message.source.replaceAll("DIR", dir.path))));
    });

    function expectRefusal(message: string): void {
      const thrown = thrownBy(() => resolve());

      expect(thrown).toEqual(refusal("kubeconfig-invalid", message.replaceAll("FILE", kubeconfig)));
      expect(Bun.inspect(thrown)).not.toContain("s3cr3t");
    }

    it.each<[string, Fields, string]>([
      ["the server is missing", { server: undefined }, 'server of cluster "c" of FILE is missing'],
      ["the server is no text", { server: 7 }, 'server of cluster "c" of FILE must be a string, not a number'],
      ["the server is no URL", { server: "https://" }, 'server of cluster "c" of FILE is "https://"'],
      ["the server is no HTTP server", { server: "ftp://a" }, "which is not the http or https URL of an API server"],
      ["the server's URL has a password", { server: "https://me:s3cr3t@a" }, "holds a user name or a password"],
      [
        "the authority's data are no base64",
        { "certificate-authority-data": "%%%" },
        'certificate-authority-data of cluster "c" of FILE is not base64',
      ],
      [
        "the authority's data are no certificate",
        { "certificate-authority-data": btoa("hello") },
        "holds no PEM block of kind CERTIFICATE",
      ],
      [
        "a key is given as authority",
        { "certificate-authority": "me.key" },
        'certificate-authority of cluster "c" of FILE holds no PEM block of kind CERTIFICATE',
      ],
      [
        "skip-verify is no truth value",
        { "insecure-skip-tls-verify": "yes" },
        'insecure-skip-tls-verify of cluster "c" of FILE must be true or false, not a string',
      ],
      [
        "skip-verify stands beside an authority",
        { "insecure-skip-tls-verify": true, "certificate-authority": "ca.crt" },
        "has both insecure-skip-tls-verify and a certificate-authority",
      ],
      [
        "the proxy is no HTTP proxy",
        { "proxy-url": "socks5://me:s3cr3t@p" },
        'proxy-url of cluster "c" of FILE is not the URL of an http or https proxy',
      ],
    ])("%s", (_what, cluster, message) => {
      writeKubeconfig(cluster);
      expectRefusal(message);
    });

    it.each<[string, Fields, string]>([
      ["a certificate has no key", { "client-certificate": "me.crt" }, 'user "u" of FILE has client-certificate but not client-key'],
      ["a key has no certificate", { "client-key-data": btoa(KEY) }, 'user "u" of FILE has client-key but not client-certificate'],
      [
        "a certificate is given as key",
        { "client-certificate": "me.crt", "client-key": "me.crt" },
        "holds no PEM block of kind PRIVATE KEY",
      ],
      ["the token is no text", { token: 12345 }, 'token of user "u" of FILE must be a string, not a number'],
      ["the token breaks the header", { token: "s3cr3t\r\nX: y" }, 'token of user "u" of FILE holds white space'],
      ["the user to act as breaks the header", { as: "a\r\nX: y" }, "which no header can hold"],
      ["the user has an auth-provider", { "auth-provider": { name: "gcp" } }, "auth-provider of user"],
      ["the plugin has no command", { exec: { apiVersion: "v1" } }, 'command of exec of user "u" of FILE is missing'],
      ["the plugin has no version", { exec: { command: "a" } }, 'apiVersion of exec of user "u" of FILE is missing'],
      ["the plugin's arguments are no texts", { exec: { apiVersion: "v1", command: "a", args: [7] } }, "args of exec"],
      [
        "a variable of the plugin has no name",
        { exec: { apiVersion: "v1", command: "a", env: [{ value: "v" }] } },
        "name of env[0] of exec",
      ],
    ])("%s", (_what, user, message) => {
      writeKubeconfig({}, user);
      expectRefusal(message);
    });

    it("it is not there (recording kubeconfig-absent)", () => {
      expect(() => resolve()).toThrow(refusal("kubeconfig-unreadable", `stat ${kubeconfig}: no such file or directory`));
    });

    it("it is a folder", () => {
      expect(() => resolve({ kubernetes: { kubeconfig: dir.path } })).toThrow(
        refusal("kubeconfig-unreadable", `error loading config file "${dir.path}": is a directory`),
      );
    });

    it.each([
      ["certificate-authority", { "certificate-authority": "absent" }, {}],
      ["client-certificate", {}, { "client-certificate": "absent", "client-key": "me.key" }],
      ["tokenFile", {}, { tokenFile: "absent" }],
    ])("the file that %s names is not there", (key, cluster, user) => {
      writeKubeconfig(cluster, user);

      expect(() => resolve()).toThrow(
        refusal("kubeconfig-unreadable", new RegExp(`^unable to read ${key} of .*absent: no such file or directory`)),
      );
    });

    it("the token file is empty", () => {
      write("token", "\n");
      writeKubeconfig({}, { tokenFile: "token" });

      expect(() => resolve()).toThrow(refusal("kubeconfig-invalid", `tokenFile of user "u" of ${kubeconfig} is empty`));
    });
  });

  describe("finds the server", () => {
    const root = (config: ApiConfig) => config.server.url;

    it("in kubernetes.k8s_api_root, then policy.k8s_api_root, then the kubeconfig (recording api-root)", () => {
      writeKubeconfig({ "certificate-authority": "ca.crt" }, { token: "t" });
      const kubernetes = { kubeconfig, k8s_api_root: "https://one:6443" };
      const policy = { k8s_api_root: "https://two:6443/api/v1/" };

      expect(resolve({ kubernetes, policy })).toMatchObject({
        server: { url: "https://one:6443", basePath: "" },
        trust: { certificateAuthority: CA },
        identity: { authorization: "Bearer t" },
      });
      expect(root(resolve({ kubernetes: { kubeconfig }, policy }))).toBe("https://two:6443");
      expect(root(resolve())).toBe("https://10.96.0.1:443");
    });

    it("whose certificate is verified where a kubeconfig names a user and no cluster", () => {
      write("kubeconfig", "contexts: [{name: x, context: {user: u}}]\nusers: [{name: u, user: {token: t}}]\ncurrent-context: x");

      expect(resolve({ kubernetes: { kubeconfig, k8s_api_root: "https://one" } })).toMatchObject({
        server: { url: "https://one:443" },
        trust: { skipVerify: false },
        identity: { authorization: "Bearer t" },
      });
    });

    it.each<[Environment, string]>([
      [{ CALICO_K8S_API_ENDPOINT: "https://prefixed", K8S_API_ENDPOINT: "https://plain" }, "https://prefixed:443"],
      [{ K8S_API_ENDPOINT: "https://plain" }, "https://one:443"],
    ])("of %j and the network configuration", (env, url) => {
      expect(root(resolve({ kubernetes: { k8s_api_root: "https://one" } }, env))).toBe(url);
    });

    it.each([
      ["10.0.0.1:6443", "https://10.0.0.1:6443", ""],
      ["http://10.0.0.1:8080", "http://10.0.0.1:8080", ""],
      ["https://a/api/v1", "https://a:443", ""],
      ["https://a/prefix/api/v1", "https://a:443/prefix", "/prefix"],
      ["https://a//", "https://a:443", ""],
    ])("from %s", (text, url, basePath) => {
      expect(resolve({}, { K8S_API_ENDPOINT: text }).server).toMatchObject({ url, basePath });
    });

    it("of an address alone, as nobody", () => {
      expect(resolve({}, { K8S_API_ENDPOINT: "https://a" }).identity).toMatchObject({ authorization: undefined, certificate: undefined });
    });

    it("through KUBECONFIG, CALICO_KUBECONFIG first (recording kubeconfig-env)", () => {
      const other = writeKubeconfig({ server: "https://other" }, {}, "other");
      writeKubeconfig({});

      expect(root(resolve({}, { KUBECONFIG: kubeconfig }))).toBe("https://10.96.0.1:443");
      expect(root(resolve({ kubernetes: { kubeconfig } }, { KUBECONFIG: other }))).toBe("https://10.96.0.1:443");
      expect(root(resolve({ kubernetes: { kubeconfig } }, { CALICO_KUBECONFIG: other }))).toBe("https://other:443");
    });

    it("in the kubeconfig of the home folder where nothing else is said", () => {
      mkdirSync(join(dir.path, ".kube"));
      writeKubeconfig({ server: "https://home" }, {}, ".kube/config");

      expect(root(resolve({}, { HOME: dir.path }))).toBe("https://home:443");
      expect(root(resolve({}, { HOME: dir.path, K8S_API_ENDPOINT: "https://a" }))).toBe("https://a:443");
    });

    it("nowhere, and says where it looked (recording ipam kubeconfig-absent)", () => {
      expect(() => resolve({}, { HOME: dir.path })).toThrow(
        refusal(
          "kubeconfig-missing",
          `invalid configuration: no configuration has been provided: neither kubernetes.kubeconfig nor an API server is set, ${dir.path}/.kube/config is not there`,
        ),
      );
    });
  });

  describe("lets the network configuration and the environment override the kubeconfig:", () => {
    beforeEach(() => {
      writeKubeconfig(
        { "certificate-authority": "ca.crt" },
        { token: "kubeconfig", "client-certificate": "me.crt", "client-key": "me.key" },
      );
    });
    const withPolicy = (policy: JsonObject, env?: Environment) => resolve({ kubernetes: { kubeconfig }, policy }, env);
    const other = () => ({
      certificate: write("other.crt", pem("CERTIFICATE", "other")),
      key: write("other.key", pem("PRIVATE KEY", "other")),
    });

    it("policy.k8s_auth_token replaces its user as a whole", () => {
      expect(withPolicy({ k8s_auth_token: "override" }).identity).toEqual({
        description: "the token in policy.k8s_auth_token",
        authorization: "Bearer override",
        certificate: undefined,
        headers: [],
        plugin: undefined,
      });
    });

    it("so do policy.k8s_client_certificate and policy.k8s_client_key", () => {
      const { certificate, key } = other();

      expect(withPolicy({ k8s_client_certificate: certificate, k8s_client_key: key }).identity).toMatchObject({
        authorization: undefined,
        certificate: { certificate: pem("CERTIFICATE", "other"), key: pem("PRIVATE KEY", "other") },
      });
    });

    it("and K8S_CERT_FILE and K8S_KEY_FILE, after policy unless they begin with CALICO_", () => {
      const { certificate, key } = other();
      const policy = { k8s_client_certificate: join(dir.path, "me.crt"), k8s_client_key: join(dir.path, "me.key") };
      const used = (given: JsonObject, env: Environment) => withPolicy(given, env).identity.certificate?.key;

      expect(used({}, { K8S_CERT_FILE: certificate, K8S_KEY_FILE: key })).toBe(pem("PRIVATE KEY", "other"));
      expect(used(policy, { K8S_CERT_FILE: certificate, K8S_KEY_FILE: key })).toBe(KEY);
      expect(used(policy, { CALICO_K8S_CERT_FILE: certificate, CALICO_K8S_KEY_FILE: key })).toBe(pem("PRIVATE KEY", "other"));
    });

    it("policy.k8s_certificate_authority and K8S_CA_FILE replace its authority, and are looked at even where it says not to verify", () => {
      const { certificate } = other();
      const trust = { certificateAuthority: pem("CERTIFICATE", "other"), skipVerify: false };

      expect(withPolicy({ k8s_certificate_authority: certificate }).trust).toMatchObject(trust);
      expect(resolve(undefined, { K8S_CA_FILE: certificate }).trust).toMatchObject(trust);
      writeKubeconfig({ "insecure-skip-tls-verify": true });
      expect(resolve(undefined, { K8S_CA_FILE: certificate }).trust).toMatchObject(trust);
    });

    it("K8S_INSECURE_SKIP_TLS_VERIFY says whether to verify", () => {
      expect(resolve(undefined, { K8S_INSECURE_SKIP_TLS_VERIFY: "true" }).trust.skipVerify).toBe(true);
      expect(resolve(undefined, { K8S_INSECURE_SKIP_TLS_VERIFY: "false" }).trust.skipVerify).toBe(false);
      writeKubeconfig({ "insecure-skip-tls-verify": true });
      expect(resolve(undefined, { CALICO_K8S_INSECURE_SKIP_TLS_VERIFY: "0" }).trust.skipVerify).toBe(false);
    });

    it.each<[JsonObject, Environment, object]>([
      [{}, {}, { qps: 5, burst: 100 }],
      [
        { qps: 7, burst: 9 },
        { K8S_CLIENT_QPS: "1", K8S_CLIENT_BURST: "2" },
        { qps: 7, burst: 9 },
      ],
      [
        { qps: 7, burst: 9 },
        { CALICO_K8S_CLIENT_QPS: "1.5", CALICO_K8S_CLIENT_BURST: "2" },
        { qps: 1.5, burst: 2 },
      ],
      [{}, { K8S_CLIENT_QPS: "1", K8S_CLIENT_BURST: "2" }, { qps: 1, burst: 2 }],
    ])("limits of requests a second: %j %j", (netconf, env, expected) => {
      expect(resolve({ kubernetes: { kubeconfig }, ...netconf }, env)).toMatchObject(expected);
    });

    it.each<[JsonObject, Environment, string, string]>([
      [{}, { K8S_CLIENT_QPS: "fast" }, "netconf-value", 'environment variable K8S_CLIENT_QPS is "fast", which is not a number'],
      [
        {},
        { K8S_INSECURE_SKIP_TLS_VERIFY: "yes" },
        "netconf-value",
        'environment variable K8S_INSECURE_SKIP_TLS_VERIFY is "yes", which is not true or false',
      ],
      [{ policy: { k8s_client_key: "KEY" } }, {}, "netconf-value", "policy.k8s_client_certificate (or K8S_CERT_FILE) is not set"],
      [{}, { K8S_CERT_FILE: "CERT" }, "netconf-value", "policy.k8s_client_key (or K8S_KEY_FILE) is not set"],
      [
        {},
        { K8S_CA_FILE: "/nowhere" },
        "kubeconfig-unreadable",
        "unable to read environment variable K8S_CA_FILE: open /nowhere: no such file or directory",
      ],
      [
        { policy: { k8s_certificate_authority: "KEY" } },
        {},
        "kubeconfig-invalid",
        "key policy.k8s_certificate_authority (KEY) holds no PEM block of kind CERTIFICATE",
      ],
      [{ policy: { k8s_auth_token: "s3cr3t s3cr3t" } }, {}, "kubeconfig-invalid", "key policy.k8s_auth_token holds white space"],
      [{ kubernetes: { k8s_api_root: "ftp://a" } }, {}, "kubeconfig-invalid", 'key kubernetes.k8s_api_root is "ftp://a"'],
    ])("and refuses %j %j", (netconf, env, word, message) => {
      const inDir = (text: string) => text.replaceAll("KEY)", `${dir.path}/me.key)`);
      const paths = (value: unknown): string =>
        JSON.stringify(value).replaceAll('"KEY"', `"${dir.path}/me.key"`).replaceAll('"CERT"', `"${dir.path}/me.crt"`);

      expect(() => resolve({ kubernetes: { kubeconfig }, ...JSON.parse(paths(netconf)) }, JSON.parse(paths(env)))).toThrow(
        refusal(word, inDir(message)),
      );
    });
  });
});
