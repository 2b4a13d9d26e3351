import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { readInCluster } from "../../../../../lib/kubernetes/config/resolve.ts";
import { fresh, TemporaryDirectory } from "../../../../support/fixtures.ts";

const CA = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";

describe("readInCluster", () => {
  const folder = fresh(() => new TemporaryDirectory());
  beforeEach(() => {
    writeFileSync(join(folder.path, "token"), "abc\n");
    writeFileSync(join(folder.path, "ca.crt"), CA);
  });

  it("takes the server of the variables and the mounted account", () => {
    expect(readInCluster({ KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" }, folder.path)).toMatchObject({
      server: { url: "https://10.96.0.1:443", hostname: "10.96.0.1", port: 443, isTls: true },
      trust: { certificateAuthority: CA, skipVerify: false },
      identity: { authorization: "Bearer abc", description: `the service account in ${folder.path}` },
    });
  });

  it("puts an IPv6 address into brackets", () => {
    expect(readInCluster({ KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "6443" }, folder.path)?.server).toMatchObject({
      url: "https://[fd00::1]:6443",
      hostname: "fd00::1",
      authority: "[fd00::1]:6443",
    });
  });

  it.each<[Readonly<Record<string, string>>, string]>([
    [{}, "folder"],
    [{ KUBERNETES_SERVICE_HOST: "10.96.0.1" }, "folder"],
    [{ KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" }, "/nowhere"],
  ])("knows that this is no pod: %j, %s", (env, place) => {
    expect(readInCluster(env, place === "folder" ? folder.path : place)).toBeUndefined();
  });

  it("refuses an authority that is none", () => {
    writeFileSync(join(folder.path, "ca.crt"), "hello");

    expect(() => readInCluster({ KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" }, folder.path)).toThrow(
      expect.objectContaining({ word: "kubeconfig-invalid", message: `${folder.path}/ca.crt holds no PEM block of kind CERTIFICATE` }),
    );
  });
});
