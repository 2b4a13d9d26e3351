/** What stays after an installation: what it mends, what it renews, and what it says of a list that others have edited. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Installed, install } from "../../../installer/install.ts";
import type { InstallSettings } from "../../../installer/settings.ts";
import { InstallationWatch, pauseUntilRenewal } from "../../../installer/watch.ts";
import { fresh } from "../../support/fixtures.ts";
import { InstallDirectories } from "../../support/install-directories.ts";
import { until } from "../../support/kubernetes/until.ts";
import { type Reply, TlsServer } from "../../support/tls-server.ts";
import { TestAuthority } from "../../support/tls-server-certificates.ts";

const host = fresh(() => new InstallDirectories());

async function whileWatched(settings: InstallSettings, installed: Installed, work: (watch: InstallationWatch) => Promise<void>) {
  const stop = new AbortController();
  const watch = new InstallationWatch(settings, installed, host.log);
  const running = watch.run(stop.signal);
  try {
    await work(watch);
  } finally {
    stop.abort();
    await running;
  }
}

describe("The files of an installation", () => {
  it("W2: remarks about an edited list are logged once, however often the files are compared", async () => {
    const list = join(host.netDir, "10-tortie.conflist");
    const settings = host.settings();
    await install(settings, () => {});
    const edited = JSON.parse(readFileSync(list, "utf8"));
    edited.plugins.push({ type: "istio-cni" });
    writeFileSync(list, JSON.stringify(edited));

    await whileWatched(settings, await install(settings, host.log), async () => {
      for (let round = 0; round < 3; round++) {
        // In one line: each comparison that sees it writes it again.
        writeFileSync(list, JSON.stringify(edited));
        await until("the list to be written", () => host.said.filter((line) => line === `${list} written`).length === round + 2);
      }
    });

    expect(host.said.filter((line) => line.includes("istio-cni"))).toEqual([`${list}: plugin istio-cni, which somebody else added, stays`]);
  });

  it("follow the secret: a key that is given no longer goes, one that comes is installed, and the list names what is there", async () => {
    const key = join(host.netDir, "calico-tls/etcd-key");
    const namesKey = () => readFileSync(join(host.netDir, "10-tortie.conflist"), "utf8").includes("etcd-key");
    host.addSecrets("etcd-ca", "etcd-cert", "etcd-key");
    const settings = host.settings({ CNI_NETWORK_CONFIG: '{"plugins":[{"type":"tortie","etcd_key_file":"__ETCD_KEY_FILE__"}]}' });
    await whileWatched(settings, await install(settings, host.log), async () => {
      expect([existsSync(key), namesKey()]).toEqual([true, true]);
      rmSync(join(host.secrets, "etcd-key"));
      await until("the key to go", () => !existsSync(key));
      expect([existsSync(key), namesKey()]).toEqual([false, false]);
      host.addSecrets("etcd-key");
      await until("the key to come", () => existsSync(key) && namesKey());
      expect([existsSync(key), namesKey()]).toEqual([true, true]);
    });
  });

  it("are a problem of the health answer while they cannot be mended, and none any more once they can", async () => {
    const settings = host.settings();
    await whileWatched(settings, await install(settings, host.log), async (watch) => {
      await until("a comparison", () => host.said.length > 0);
      expect(watch.health()).toEqual({ problems: [], tokenExpiresMs: undefined });
      rmSync(join(host.netDir, "10-tortie.conflist"));
      mkdirSync(join(host.netDir, "10-tortie.conflist/in-the-way"), { recursive: true });
      await until("a problem", () => watch.health().problems.length > 0);
      expect(watch.health().problems).toEqual([expect.stringMatching(/^files of the installation: /)]);
      rmSync(join(host.netDir, "10-tortie.conflist"), { recursive: true });
      await until("the end of the problem", () => watch.health().problems.length === 0);
      expect(watch.health().problems).toEqual([]);
    });
    expect(host.said.filter((line) => line.endsWith("; tried again")).length).toBeGreaterThan(0);
  });
});

describe("An installation in which nothing happens", () => {
  it("is left alone, on a host without any token too", async () => {
    let looks = 0;
    const settings = host.settings();
    const counted = {
      ...settings,
      get tlsDir() {
        looks++;
        return settings.tlsDir;
      },
    };
    await whileWatched(counted, await install(settings, host.log), async () => {
      await Bun.sleep(500);
      // What the installation itself has done may be seen late; what comes after that is the next half minute's.
      const before = looks;
      await Bun.sleep(1_000);
      expect(looks).toBe(before);
    });
  });
});

describe("The token of an installation", () => {
  const END = "2030-01-02T03:04:05Z";
  const authority = new TestAuthority();
  const keyPair = authority.issue("/CN=server", "IP:127.0.0.1");
  let reply: Reply | undefined;
  const granted = (token: string) => ({ status: 201, body: JSON.stringify({ status: { token, expirationTimestamp: END } }) });
  const server = fresh(() => new TlsServer((_, index) => reply ?? granted(`token-${index + 1}`), { keyPair }));
  beforeEach(() => {
    reply = undefined;
    host.addServiceAccount({ token: "own", "ca.crt": authority.certificate, namespace: "kube-system" });
  });

  const settings = () => host.settings({ KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: String(server.port) });
  const kubeconfig = () => join(host.netDir, "calico-kubeconfig");
  const written = () => (existsSync(kubeconfig()) ? /token: (.*)/.exec(readFileSync(kubeconfig(), "utf8"))?.[1] : undefined);

  it("is asked for at once where the installation left none, and not again before its time", async () => {
    await whileWatched(settings(), { token: undefined, remarks: [] }, async (watch) => {
      await until("the first token", () => written() === "token-1" && watch.health().tokenExpiresMs !== undefined);
      expect(watch.health()).toEqual({ problems: [], tokenExpiresMs: Date.parse(END) });
      writeFileSync(join(host.netDir, "something"), "");
      const list = join(host.netDir, "10-tortie.conflist");
      rmSync(list, { force: true });
      await until("the list", () => existsSync(list));
      expect(written()).toBe("token-1");
    });
    expect(server.requests.length).toBe(1);
  });

  it("is renewed when its file is gone, and when the kubelet has mounted another one of the pod", async () => {
    await whileWatched(settings(), await install(settings(), host.log), async () => {
      expect(written()).toBe("token-1");
      rmSync(kubeconfig());
      await until("the second token", () => written() === "token-2");
      expect(written()).toBe("token-2");
      host.addServiceAccount({ token: "another" });
      await until("the third token", () => written() === "token-3");
      expect(server.requests.map(({ headers }) => headers.authorization)).toEqual(["Bearer own", "Bearer own", "Bearer another"]);
    });
  });

  it("that cannot be renewed is a problem of the health answer, and the one that is there stays", async () => {
    await whileWatched(settings(), await install(settings(), host.log), async (watch) => {
      reply = { status: 403 };
      host.addServiceAccount({ token: "another" });
      await until("a problem", () => watch.health().problems.length > 0);
      expect(watch.health()).toEqual({ problems: [expect.stringMatching(/^token: /)], tokenExpiresMs: Date.parse(END) });
      expect(written()).toBe("token-1");
      reply = undefined;
      rmSync(kubeconfig());
      await until("the end of the problem", () => watch.health().problems.length === 0);
      expect(watch.health().problems).toEqual([]);
    });
  });

  it("is never asked for on a host that is no pod", async () => {
    rmSync(host.serviceAccount, { recursive: true });
    await whileWatched(settings(), await install(settings(), host.log), async () => {
      const list = join(host.netDir, "10-tortie.conflist");
      rmSync(list);
      await until("the list", () => existsSync(list));
    });
    expect(server.requests).toEqual([]);
  });

  it.each([
    [8_000_000, undefined, 0, 2_000_000],
    [8_000_000, undefined, 1, 4_000_000],
    [1_000, undefined, 0, 5_000],
    [-1, undefined, 0.5, 7_500],
    [8_000_000, 60_000, 1, 60_000],
  ])("with %i ms left and an interval of %s and chance %d is renewed after %i ms", (leftMs, configuredMs, chance, expected) => {
    expect(pauseUntilRenewal(leftMs, configuredMs, () => chance)).toBe(expected);
  });
});
