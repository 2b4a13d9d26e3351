/** The installer's settings from the environment (C§9.2). */
import { CALICO_NAMES, CONTAINER_PATHS, readInstallSettings, TORTIE_NAMES } from "../../../installer/settings.ts";

const read = (env: Readonly<Record<string, string>>) => readInstallSettings(env, CONTAINER_PATHS, CALICO_NAMES, "10-calico.conflist");

describe("readInstallSettings", () => {
  it("has Calico's defaults", () => {
    expect(read({})).toMatchObject({
      binDirs: ["/host/opt/cni/bin", "/host/secondary-bin-dir"],
      netDir: "/host/etc/cni/net.d",
      hostNetDir: "/etc/cni/net.d",
      confName: "10-calico.conflist",
      oldConfName: "10-calico.conflist",
      kubeconfigName: "calico-kubeconfig",
      template: {},
      tlsDir: "/calico-secrets",
      updates: true,
      stays: true,
      confMode: 0o600,
      token: { account: "calico-cni-plugin", skipVerify: false, refreshMs: undefined },
    });
  });

  it.each([
    ["I23: an IPv4 address", "127.0.0.1", "https://127.0.0.1:6443"],
    ["I24: an IPv6 address in brackets", "2001:db8::1", "https://[2001:db8::1]:6443"],
  ])("names the API server by %s", (_, host, server) => {
    const env = { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: "6443", KUBERNETES_SERVICE_PROTOCOL: "" };

    expect(read(env).token.server).toBe(server);
  });

  it.each([
    ["UPDATE_CNI_BINARIES", "perhaps"],
    ["SLEEP", "2"],
    ["TEST_FILE_PERMISSION", "rw"],
    ["CNI_CONF_NAME", "../10-calico.conflist"],
    ["TORTIE_KUBECONFIG_NAME", "../tortie-kubeconfig"],
    ["TORTIE_KUBECONFIG_NAME", "kubeconfig.conf"],
    ["CNI_TOKEN_REFRESH_INTERVAL", "10"],
    ["CNI_TOKEN_REFRESH_INTERVAL", "-1s"],
  ])("refuses %s=%s by name", (name, value) => {
    expect(() => read({ [name]: value })).toThrow(
      expect.objectContaining({ word: "install-settings", message: expect.stringContaining(name) }),
    );
  });

  it("reads durations as Go writes them, modes in octal and lists with blanks", () => {
    const settings = read({ CNI_TOKEN_REFRESH_INTERVAL: "1h30m5s", TEST_FILE_PERMISSION: "0644", SKIP_CNI_BINARIES: "flannel, tuning" });

    expect(settings.token.refreshMs).toBe(5_405_000);
    expect(settings.confMode).toBe(0o644);
    expect([...settings.skipped]).toEqual(["flannel", "tuning"]);
  });
});

describe("A list of another network that somebody else has put there", () => {
  const keeps = (env: Readonly<Record<string, string>>) =>
    readInstallSettings(env, CONTAINER_PATHS, TORTIE_NAMES, "10-tortie.conflist").keepsLists;

  it("stays where Tortie's own list would come, and gives way to a template that was given, as text or as a file", () => {
    expect(keeps({})).toBe(true);
    expect(keeps({ CNI_NETWORK_CONFIG: "{}" })).toBe(false);
    expect(keeps({ CNI_NETWORK_CONFIG_FILE: "/template" })).toBe(false);
  });

  it("gives way to Calico's installer", () => {
    expect(read({}).keepsLists).toBe(false);
  });
});
