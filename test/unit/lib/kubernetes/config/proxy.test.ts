import { parseServer } from "../../../../../lib/kubernetes/config/api-config.ts";
import { proxyFor } from "../../../../../lib/kubernetes/config/proxy.ts";

const PROXY = "http://proxy:3128";
const through = (server: string, env: Readonly<Record<string, string>>) => proxyFor(parseServer(server, "test"), env, undefined, "");

describe("proxyFor", () => {
  it.each<[string, Readonly<Record<string, string>>, string | undefined]>([
    ["https://a", { HTTPS_PROXY: PROXY }, PROXY],
    ["https://a", { https_proxy: PROXY }, PROXY],
    ["https://a", { HTTPS_PROXY: "proxy:3128" }, PROXY],
    ["https://a", { HTTP_PROXY: PROXY }, undefined],
    ["http://a", { HTTP_PROXY: PROXY }, PROXY],
    ["http://a", { HTTPS_PROXY: PROXY }, undefined],
    ["https://localhost:6443", { HTTPS_PROXY: PROXY }, undefined],
    ["https://127.0.0.7:6443", { HTTPS_PROXY: PROXY }, undefined],
    ["https://[::1]:6443", { HTTPS_PROXY: PROXY }, undefined],
  ])("%s with %j", (server, env, expected) => {
    expect(through(server, env)).toBe(expected);
  });

  it.each<[string, string, boolean]>([
    ["https://10.96.0.1", "*", true],
    ["https://10.96.0.1", "10.96.0.1", true],
    ["https://10.96.0.1", "10.96.0.2", false],
    ["https://10.96.0.1", " a , 10.96.0.0/12", true],
    ["https://10.96.0.1", "10.0.0.0/16", false],
    ["https://10.96.0.1", "10.96.0.1:443", true],
    ["https://10.96.0.1", "10.96.0.1:6443", false],
    ["https://[fd00::1]:6443", "fd00::/8", true],
    ["https://[fd00::1]:6443", "fd00::1", true],
    ["https://[fd00::1]:6443", "[fd00::1]:6443", true],
    ["https://[fd00::1]:6443", "[fd00::1]:443", false],
    ["https://api.example.org", "example.org", true],
    ["https://example.org", "example.org", true],
    ["https://api.example.org", ".example.org", true],
    ["https://example.org", ".example.org", false],
    ["https://api.example.org", "*.example.org", true],
    ["https://badexample.org", "example.org", false],
    ["https://API.Example.org:6443", "api.example.ORG:6443", true],
    ["https://api.example.org", "", false],
  ])("%s with NO_PROXY %j", (server, list, isExcluded) => {
    expect(through(server, { HTTPS_PROXY: PROXY, NO_PROXY: list })).toBe(isExcluded ? undefined : PROXY);
    expect(through(server, { HTTPS_PROXY: PROXY, no_proxy: list })).toBe(isExcluded ? undefined : PROXY);
  });

  it("takes the kubeconfig's own whatever the environment says", () => {
    const env = { HTTPS_PROXY: "http://other", NO_PROXY: "*" };

    expect(proxyFor(parseServer("https://a", "test"), env, PROXY, "proxy-url")).toBe(PROXY);
  });

  it("refuses one that is no HTTP proxy, without repeating its password", () => {
    expect(() => through("https://a", { HTTPS_PROXY: "socks5://me:s3cr3t@p" })).toThrow(
      expect.objectContaining({
        word: "kubeconfig-invalid",
        message: "environment variable HTTPS_PROXY is not the URL of an http or https proxy",
      }),
    );
  });
});
