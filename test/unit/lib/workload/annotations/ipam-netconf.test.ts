import { decodeNetworkConfig } from "../../../../../lib/config/decode.ts";
import { stringifyJson } from "../../../../../lib/json/value.ts";
import { configWithPodPools, podRequests, withPodPools } from "../../../../../lib/workload/annotations/requests.ts";
import { requestedOf } from "../../../../../lib/workload/requested.ts";
import { jsonObject } from "../../../../support/json-object.ts";
import { annotatedNamespace, annotatedPod } from "../../../../support/pods.ts";

/** The netconf as the IPAM plugin gets it, and the decoded configuration in both ways. */
function edited(text: string, pod: Readonly<Record<string, string>>, namespace: Readonly<Record<string, string>> = {}) {
  const netconf = jsonObject(text);
  const config = decodeNetworkConfig(netconf);
  const requests = podRequests(annotatedPod(pod), annotatedNamespace(namespace), config, requestedOf(config, { ip: undefined, mac: "" }));
  const result = withPodPools(netconf, requests);
  return { netconf, result, decoded: decodeNetworkConfig(result), direct: configWithPodPools(config, requests) };
}

const HEAD = '"name":"net1","unknown":{"big":12345678901234567890,"x":1.50},"policy":{"type":"k8s"}';

describe("the IPAM plugin's configuration", () => {
  it("has the pod's pools and families, and every digit (recording spy-annotations)", () => {
    const { result } = edited(
      `{${HEAD},"ipam":{"type":"calico-ipam","assign_ipv6":"true"}}`,
      { ipv4pools: '["second4"]', ipFamilies: '["IPv4"]' },
      { ipv6pools: '["second6"]' },
    );
    expect(stringifyJson(result)).toBe(
      `{${HEAD},"ipam":{"type":"calico-ipam","assign_ipv6":"false","ipv4_pools":["second4"],"ipv6_pools":["second6"],"assign_ipv4":"true"}}`,
    );
  });

  it("is the one that was given when the pod asks for nothing", () => {
    const { netconf, result } = edited(`{${HEAD},"ipam":{"type":"calico-ipam"},"runtimeConfig":{"ips":["10.0.0.1"]}}`, {
      hwAddr: "02:00:00:00:00:01",
    });
    expect(result).toBe(netconf);
  });

  it("has each key once, whatever its letter case was", () => {
    const { result } = edited(`{"IPAM":{"type":"calico-ipam","IPV4_pools":["a"],"ipv4_Pools":["b"]},${HEAD}}`, { ipv4pools: '["c"]' });
    expect(stringifyJson(result)).toBe(`{"ipam":{"type":"calico-ipam","ipv4_pools":["c"]},${HEAD}}`);
  });

  it.each([
    [{ ipv4pools: '["a"]' }],
    [{ ipv4pools: "[]", ipv6pools: '["b"]' }],
    [{ ipFamilies: "[]" }],
    [{ ipFamilies: '["IPv6"]' }],
    [{ ipAddrs: '["10.0.0.9"]', ipv4pools: '["a"]' }],
    [{}],
  ])("says the same decoded before and after the edit, with %j", (pod) => {
    const text = `{${HEAD},"ipam":{"type":"tortie-ipam","ipv4_pools":["x"],"ipv6_pools":["y"]},"runtimeConfig":{"ips":["10.0.0.1"],"mac":"02:00:00:00:00:01"}}`;
    const { decoded, direct } = edited(text, pod);
    expect(direct).toEqual(decoded);
  });

  it("asks for no addresses of the runtime's where the pod names its own", () => {
    const { result } = edited(`{${HEAD},"ipam":{"type":"calico-ipam"},"runtimeConfig":{"ips":["10.0.0.1"],"mac":"02:00:00:00:00:01"}}`, {
      ipAddrs: '["10.0.0.9"]',
    });
    expect(result.runtimeConfig).toEqual({ mac: "02:00:00:00:00:01" });
  });
});
