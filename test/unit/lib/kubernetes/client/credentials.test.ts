import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { decodeNetworkConfig } from "../../../../../lib/config/decode.ts";
import type { ApiClient } from "../../../../../lib/kubernetes/api-client.ts";
import { openApiClient } from "../../../../../lib/kubernetes/client/client.ts";
import { runCredentialPlugin } from "../../../../../lib/kubernetes/client/credential-plugin.ts";
import type { ApiConfig, CredentialPlugin } from "../../../../../lib/kubernetes/config/api-config.ts";
import { apiConfigFor, authority, connect, serve } from "../../../../support/api-behind-tls.ts";
import { closing } from "../../../../support/closing.ts";
import { fresh, TemporaryDirectory } from "../../../../support/fixtures.ts";
import { kubeconfigOf } from "../../../../support/kubeconfig.ts";
import { isRunning } from "../../../../support/kubernetes/process.ts";
import type { Answering, TlsServer } from "../../../../support/tls-server.ts";

/** Knows one token. */
const knows =
  (token: string): Answering =>
  ({ headers }) =>
    headers.authorization === `Bearer ${token}`
      ? { status: 200 }
      : { status: 401, body: JSON.stringify({ kind: "Status", message: "Unauthorized", reason: "Unauthorized", code: 401 }) };

type Fields = Readonly<Record<string, unknown>>;

describe("credentials of the API client", () => {
  const dir = fresh(() => new TemporaryDirectory());

  /** Writes a kubeconfig, in JSON, and the certificate of the authority beside it. */
  function writeKubeconfig(server: TlsServer, user: Fields, cluster: Fields = {}): string {
    writeFileSync(join(dir.path, "ca.crt"), authority.certificate);
    const path = join(dir.path, "kubeconfig");
    const found = { server: `https://127.0.0.1:${server.port}`, "certificate-authority": "ca.crt", ...cluster };
    writeFileSync(path, JSON.stringify(kubeconfigOf(found, user)));
    return path;
  }

  /** A client that is this user by a kubeconfig. */
  function openAs(server: TlsServer, user: Fields, cluster?: Fields): ApiClient {
    const kubeconfig = writeKubeconfig(server, user, cluster);
    return closing(openApiClient(decodeNetworkConfig({ kubernetes: { kubeconfig } }), {}));
  }

  const get = (client: ApiClient) => client.request({ method: "GET", path: "/a" });

  describe("after 401", () => {
    it("are read again from the token file, on the same connection", async () => {
      const server = serve(knows("second"));
      writeFileSync(join(dir.path, "token"), "first\n");
      const client = openAs(server, { tokenFile: "token" });
      writeFileSync(join(dir.path, "token"), "second\n");

      expect(await get(client)).toBe("{}");
      expect(server.requests.map(({ headers }) => headers.authorization)).toEqual(["Bearer first", "Bearer second"]);
      expect(server.connections).toBe(1);
    });

    it("are read again from the kubeconfig, for a write as well", async () => {
      const server = serve(knows("second"));
      const client = openAs(server, { token: "first" });
      writeKubeconfig(server, { token: "second" });

      expect(await client.request({ method: "DELETE", path: "/a" })).toBe("{}");
      expect(server.asked).toEqual(["DELETE /a", "DELETE /a"]);
    });

    it("are read again once only, and the refusal is told", async () => {
      const server = serve(knows("third"));
      const client = openAs(server, { token: "first" });

      await expect(get(client)).rejects.toMatchObject({
        name: "ApiError",
        status: 401,
        reason: "Unauthorized",
        explanation: "Unauthorized",
        identity: expect.stringMatching(/^user ".*" of \/.+/),
      });
      expect(server.requests).toHaveLength(2);
    });

    it("are read again once for all that was asked together", async () => {
      const server = serve(knows("second"));
      const client = openAs(server, { exec: writePlugin(countingPlugin("second")) });
      // The plugin's first answer is a stale one.
      writeFileSync(join(dir.path, "stale"), "");

      expect(await Promise.all([get(client), get(client), get(client)])).toEqual(["{}", "{}", "{}"]);
      expect(readFileSync(join(dir.path, "runs"), "utf8")).toBe("xx");
    });

    it("are not read again for a refusal of the former ones that comes late", async () => {
      const [late, renewed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const server = serve(async (request) => {
        const isLate = request.target === "/late" && request.headers.authorization === "Bearer first";
        if (isLate) late.resolve();
        if (isLate) await renewed.promise;
        return knows("second")(request, 0);
      });
      let reads = 0;
      const second = { identity: { authorization: "Bearer second" } };
      const reload = (): ApiConfig => (++reads === 1 ? apiConfigFor(server, { ...second, reload }) : apiConfigFor(server));
      const client = connect(server, { reload }, { connections: 2 });

      const slow = client.request({ method: "GET", path: "/late" });
      await late.promise;
      expect(await get(client)).toBe("{}");
      renewed.resolve();
      expect(await slow).toBe("{}");
      expect(reads).toBe(1);
    });

    it("may be a new certificate, for which the connection is made anew", async () => {
      const server = serve(({ connection }) => ({ status: connection === 1 ? 401 : 200 }), { clientAuthority: authority.certificate });
      const user = (name: string) => {
        const pair = authority.issue(`/CN=${name}`, "DNS:x");
        return { "client-certificate-data": btoa(pair.certificate), "client-key-data": btoa(pair.key) };
      };
      const client = openAs(server, user("old"));
      writeKubeconfig(server, user("new"));

      expect(await get(client)).toBe("{}");
      expect(server.connections).toBe(2);
    });
  });

  it("of a user who acts for another name both", async () => {
    const server = serve(() => ({ status: 200 }));
    const client = openAs(server, { username: "me", password: "p:w", as: "other", "as-groups": ["g1"], "as-user-extra": { "a/b": ["c"] } });

    await get(client);

    expect(server.requests[0]?.headers).toMatchObject({
      authorization: `Basic ${btoa("me:p:w")}`,
      "impersonate-user": "other",
      "impersonate-group": "g1",
      "impersonate-extra-a%2fb": "c",
    });
  });

  it("of a user who acts for several groups are refused: together they would be the name of another group", () => {
    const server = serve(() => ({ status: 200 }));

    expect(() => openAs(server, { token: "t", as: "other", "as-groups": ["g1", "g2"] })).toThrow(
      expect.objectContaining({ word: "kubeconfig-invalid", message: expect.stringContaining("several values for Impersonate-Group") }),
    );
  });

  /** A program that prints its `script`'s output; the kubeconfig's `exec` for it, relative to the file. */
  function writePlugin(script: string, change: Fields = {}): Fields {
    writeFileSync(join(dir.path, "plugin"), `#!/bin/sh\ncd '${dir.path}'\n${script}\n`);
    chmodSync(join(dir.path, "plugin"), 0o755);
    return { apiVersion: "client.authentication.k8s.io/v1", command: "./plugin", interactiveMode: "Never", ...change };
  }

  const credential = (status: Fields, version = "v1") =>
    JSON.stringify({ apiVersion: `client.authentication.k8s.io/${version}`, kind: "ExecCredential", status });
  const printing = (status: Fields, version?: string) => `cat <<'END'\n${credential(status, version)}\nEND`;

  /** Notes every run; while the file `stale` is there, the first answer is an old token. */
  const countingPlugin = (token: string) =>
    `printf x >> runs\nif [ -e stale ]; then rm stale; ${printing({ token: "stale" })}\nelse ${printing({ token })}\nfi`;

  describe("from a credential plugin", () => {
    it.each(["v1", "v1beta1"])("are the token it prints (%s)", async (version) => {
      const server = serve(knows("printed"));
      const client = openAs(server, {
        exec: writePlugin(printing({ token: "printed" }, version), { apiVersion: `client.authentication.k8s.io/${version}` }),
      });

      expect(await get(client)).toBe("{}");
      expect(await get(client)).toBe("{}");
    });

    it("are the certificate it prints", async () => {
      const server = serve(() => ({ status: 200 }), { clientAuthority: authority.certificate });
      const pair = authority.issue("/CN=plugin", "DNS:x");
      const status = { clientCertificateData: pair.certificate, clientKeyData: pair.key };

      expect(await get(openAs(server, { exec: writePlugin(printing(status)) }))).toBe("{}");
    });

    it("are asked for once a process while they are valid, and again when they have expired", async () => {
      const server = serve(knows("t"));
      const validUntil = (expirationTimestamp: string) =>
        openAs(server, { exec: writePlugin(`printf x >> runs\n${printing({ token: "t", expirationTimestamp })}`) });
      const valid = validUntil("2999-01-01T00:00:00Z");
      await get(valid);
      await get(valid);
      expect(readFileSync(join(dir.path, "runs"), "utf8")).toBe("x");

      const expired = validUntil("2001-01-01T00:00:00Z");
      await get(expired);
      await get(expired);
      expect(readFileSync(join(dir.path, "runs"), "utf8")).toBe("xxx");
    });

    it("are asked for with its arguments, its variables, and the cluster if it wants to know it", async () => {
      const server = serve(knows("t"));
      const script = `printf '%s\\n' "$@" > args\nprintf %s "$COLOUR" > colour\nprintf %s "$KUBERNETES_EXEC_INFO" > info\n${printing({ token: "t" })}`;
      const exec = writePlugin(script, { args: ["a b", "c"], env: [{ name: "COLOUR", value: "red" }], provideClusterInfo: true });
      const extensions = [{ name: "client.authentication.k8s.io/exec", extension: { region: "north" } }];

      await get(openAs(server, { exec }, { extensions }));

      expect(readFileSync(join(dir.path, "args"), "utf8")).toBe("a b\nc\n");
      expect(readFileSync(join(dir.path, "colour"), "utf8")).toBe("red");
      expect(JSON.parse(readFileSync(join(dir.path, "info"), "utf8"))).toEqual({
        apiVersion: "client.authentication.k8s.io/v1",
        kind: "ExecCredential",
        spec: {
          interactive: false,
          cluster: {
            server: `https://127.0.0.1:${server.port}`,
            "certificate-authority-data": btoa(authority.certificate),
            config: { region: "north" },
          },
        },
      });
    });

    it("are asked for without the cluster if it does not want to know it", async () => {
      const server = serve(knows("t"));
      await get(openAs(server, { exec: writePlugin(`printf %s "$KUBERNETES_EXEC_INFO" > info\n${printing({ token: "t" })}`) }));

      expect(JSON.parse(readFileSync(join(dir.path, "info"), "utf8")).spec).toEqual({ interactive: false });
    });

    it.each<[string, string, Fields, RegExp]>([
      ["fails", "exit 3", {}, /ended with exit status 3/],
      ["is killed", "kill -9 $$", {}, /ended with signal: SIGKILL/],
      ["prints without end", "exec yes", {}, /printed more than 1048576 bytes and was stopped/],
      ["prints nothing", "true", {}, /not JSON/],
      ["prints something else", "echo '{}'", {}, /no ExecCredential/],
      ["prints the wrong version", printing({ token: "t" }, "v1beta1"), {}, /v1beta1.*v1 was asked for/],
      ["prints no status", 'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"}\'', {}, /has no status/],
      ["prints an empty status", printing({}), {}, /neither a token nor a certificate/],
      ["prints a token that is no text", printing({ token: 7 }), {}, /no string/],
      ["prints a certificate without its key", printing({ clientCertificateData: "x" }), {}, /without its key/],
      ["prints a time that is none", printing({ token: "t", expirationTimestamp: "soon" }), {}, /is no time/],
      [
        "is not there",
        "true",
        { command: "/nowhere/plugin", installHint: "get it at example.org" },
        /cannot be run: .*\(get it at example\.org\)/,
      ],
      ["is not in PATH", "true", { command: "no-such-plugin" }, /cannot be run in PATH/],
      [
        "speaks a version nobody knows",
        "true",
        { apiVersion: "client.authentication.k8s.io/v1alpha1" },
        /apiVersion is "client\.authentication\.k8s\.io\/v1alpha1"/,
      ],
      ["wants a terminal", "true", { interactiveMode: "Always" }, /interactiveMode Always/],
    ])("are missing when it %s, which the error says without what it printed", async (_what, script, change, message) => {
      const server = serve(knows("t"));
      const client = openAs(server, { exec: writePlugin(script, change) });

      await expect(get(client)).rejects.toMatchObject({
        name: "TortieError",
        word: "credentials-failed",
        message: expect.stringMatching(new RegExp(`^credential plugin .* of user "u" of ${dir.path}/kubeconfig: .*${message.source}`)),
      });
      expect(server.requests).toEqual([]);
    });

    it("L4: are taken although a child of it keeps its output open", async () => {
      const server = serve(knows("t"));
      const client = openAs(server, { exec: writePlugin(`${printing({ token: "t" })}\nsleep 60 &\necho $! > child`) });

      try {
        expect(await get(client)).toBe("{}");
      } finally {
        process.kill(Number(readFileSync(join(dir.path, "child"), "utf8")), "SIGKILL");
      }
    });

    it("L4: are given up in time, and with it everything that it has started", async () => {
      writePlugin("sleep 60 & echo $! > child\nwait");
      const plugin: CredentialPlugin = {
        apiVersion: "client.authentication.k8s.io/v1",
        command: join(dir.path, "plugin"),
        args: [],
        env: {},
        needsTerminal: false,
        installHint: "",
        cluster: undefined,
      };

      await expect(runCredentialPlugin(plugin, "the test", 300)).rejects.toMatchObject({
        word: "credentials-failed",
        message: expect.stringContaining("did not finish within 0.3 s"),
      });

      const child = Number(readFileSync(join(dir.path, "child"), "utf8"));
      while (isRunning(child)) await Bun.sleep(5);
    });

    it("are missing when it prints garbage, which is not repeated: there may be a secret in it", async () => {
      const client = openAs(serve(knows("t")), { exec: writePlugin("echo s3cr3t") });

      const error: unknown = await get(client).catch((thrown: unknown) => thrown);

      expect(Bun.inspect(error)).not.toContain("s3cr3t");
    });
  });
});
