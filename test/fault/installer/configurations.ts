/** Hosts that the installer is tried on: by hand without a cluster, and in a pod with a kubeconfig, an authority and etcd's TLS files. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Installation, type InstallRun } from "../../support/installation.ts";
import { BIN_DIR } from "../../support/node.ts";
import { TlsServer } from "../../support/tls-server.ts";
import { TestAuthority } from "../../support/tls-server-certificates.ts";

export type Version = "old" | "new";

/** Where a pod finds its account; the sandbox has a /run of its own. */
const ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";
const MTU: Readonly<Record<Version, number>> = { old: 1400, new: 9000 };
const LIST = "10-tortie.conflist";
const TLS_NAMES = ["etcd-ca", "etcd-cert", "etcd-key"];
const PROGRAMS = ["tortie", "tortie-ipam", "tortiectl"];

export abstract class Configuration {
  /** A host where nothing of ours is, but a list of somebody else's. */
  prepare(): Installation {
    const host = new Installation();
    writeFileSync(join(host.netDir, "10-calico.conflist"), "{}");
    return host;
  }

  /** Installs one version of everything. @param wrap a program that runs the installer */
  async install(host: Installation, version: Version, wrap: readonly string[] = []): Promise<InstallRun> {
    const source = join(host.root, "program");
    // A few bytes: what is copied is not what is looked at.
    writeFileSync(source, `#!/bin/sh\necho ${version}\n`, { mode: 0o755 });
    writeFileSync(join(host.root, "tortie"), `#!/bin/sh\n# TORTIE-FORWARDER ${version}\nexec "$0-main"\n`, { mode: 0o755 });
    const argv = ["install", "--force", "--net-dir", host.netDir, "--bin-dir", host.binDir, "--source", source];
    const { around, env } = await this.surroundings(host, version);
    return host.run([...around, ...wrap, join(BIN_DIR, "tortiectl"), ...argv], {
      CNI_MTU: String(MTU[version]),
      // The operations of two runs are compared by their paths.
      TORTIE_INSTALL_TEMPORARY: "0123456789abcdef",
      ...env,
    });
  }

  uninstall(host: Installation, wrap: readonly string[] = []): Promise<InstallRun> {
    return host.run([...wrap, join(BIN_DIR, "tortiectl"), "uninstall", "--net-dir", host.netDir]);
  }

  /** Which version a runtime finds; it throws when it finds one that does not work. */
  versionOf(host: Installation): Version | undefined {
    const path = join(host.netDir, LIST);
    if (!existsSync(path)) return undefined;
    const { mtu } = JSON.parse(readFileSync(path, "utf8")).plugins[0];
    const version = mtu === MTU.old ? "old" : "new";
    expect(mtu).toBe(MTU[version]);
    for (const name of PROGRAMS) expect(execFileSync(join(host.binDir, name), { encoding: "utf8" })).toMatch(/^(old|new)\n$/);
    this.expectFiles(host);
    return version;
  }

  protected abstract surroundings(host: Installation, version: Version): Promise<Surroundings>;
  /** What the list names beside the plugins. */
  protected abstract expectFiles(host: Installation): void;
}

interface Surroundings {
  readonly around: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export class ByHand extends Configuration {
  protected async surroundings(): Promise<Surroundings> {
    return { around: [], env: {} };
  }

  protected expectFiles(): void {
    // None.
  }
}

export class InPod extends Configuration implements Disposable {
  readonly #authority = new TestAuthority();
  readonly #server = new TlsServer(() => this.#token(), { keyPair: this.#authority.issue("/CN=api", "IP:127.0.0.1") });
  /** Two pairs: the key of one does not fit the certificate of the other. */
  readonly #pairs = { old: this.#authority.issue("/CN=old", undefined), new: this.#authority.issue("/CN=new", undefined) };
  #tokens = 0;

  constructor() {
    super();
    mkdirSync(ACCOUNT, { recursive: true });
  }

  protected async surroundings(host: Installation, version: Version): Promise<Surroundings> {
    host.addServiceAccount("of-the-pod", this.#authority.certificate);
    const { certificate, key } = this.#pairs[version];
    const secrets = { "etcd-ca": this.#authority.certificate, "etcd-cert": certificate, "etcd-key": key };
    for (const [name, text] of Object.entries(secrets)) writeFileSync(join(host.secrets, name), text);
    return {
      // A mount of its own, so that no other test of this sandbox is taken for a pod.
      around: ["unshare", "--mount", "sh", "-c", `mount --bind "$1" ${ACCOUNT} && shift && exec "$@"`, "in-pod", host.serviceAccount],
      env: {
        KUBERNETES_SERVICE_HOST: "127.0.0.1",
        KUBERNETES_SERVICE_PORT: String(this.#server.port),
        CNI_NETWORK_CONFIG: JSON.stringify({
          name: "pods",
          cniVersion: "1.0.0",
          plugins: [
            { type: "tortie", mtu: "MTU", kubernetes: { kubeconfig: "__KUBECONFIG_FILEPATH__" }, etcd_key_file: "__ETCD_KEY_FILE__" },
          ],
        }).replace('"MTU"', "__CNI_MTU__"),
      },
    };
  }

  protected expectFiles(host: Installation): void {
    const [plugin] = JSON.parse(readFileSync(join(host.netDir, LIST), "utf8")).plugins;
    expect(plugin.etcd_key_file).toBe(join(host.netDir, "calico-tls/etcd-key"));
    const [authority, certificate, key] = TLS_NAMES.map((name) => readFileSync(join(host.netDir, "calico-tls", name), "utf8"));
    expect(authority).toBe(this.#authority.certificate);
    const pair = Object.values(this.#pairs).find((one) => one.certificate === certificate);
    expect({ key }).toEqual({ key: pair?.key });
    const kubeconfig = Bun.YAML.parse(readFileSync(plugin.kubernetes.kubeconfig, "utf8"));
    expect(kubeconfig).toMatchObject({
      clusters: [{ cluster: { "certificate-authority-data": Buffer.from(this.#authority.certificate).toString("base64") } }],
      users: [{ user: { token: expect.stringMatching(/^token-\d+$/) } }],
      "current-context": "calico-context",
    });
  }

  #token() {
    const status = { token: `token-${++this.#tokens}`, expirationTimestamp: new Date(Date.now() + 86_400_000).toISOString() };
    return { status: 201, body: JSON.stringify({ kind: "TokenRequest", status }) };
  }

  [Symbol.dispose](): void {
    this.#server[Symbol.dispose]();
  }
}
