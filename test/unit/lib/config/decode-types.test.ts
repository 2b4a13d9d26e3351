import { decodeNetworkConfig } from "../../../../lib/config/decode.ts";
import { TortieError } from "../../../../lib/errors/errors.ts";
import { type JsonObject, type JsonValue, RawNumber } from "../../../../lib/json/value.ts";
import { knownKeys } from "../../../support/known-keys.ts";
import { thrownBy } from "../../../support/thrown.ts";
import { words } from "../../../support/words.ts";

/** The type of every key, written out by hand from C§1.2 and docs/reference/configuration.md. */
const TYPES = {
  string: words`
    cniVersion name type mode vxlan_mac_prefix ipam.name ipam.type ipam.subnet ipam.assign_ipv4 ipam.assign_ipv6
    ipam.pools[].cidr ipam.pools[].name device_type link_form chain nodename nodename_file hostname ipam_lock_file datastore_type datastore_path
    etcd_endpoints etcd_discovery_srv etcd_key_file etcd_cert_file etcd_ca_cert_file etcd_authority etcd_scheme agent
    agent_socket log_level log_file_path policy.type policy.k8s_api_root policy.k8s_auth_token
    policy.k8s_client_certificate policy.k8s_client_key policy.k8s_certificate_authority kubernetes.kubeconfig
    kubernetes.k8s_api_root kubernetes.node_name calico_api_group endpoint_status_dir runtimeConfig.mac
    runtimeConfig.dns.domain cni.dev/valid-attachments[].containerID cni.dev/valid-attachments[].ifname
    cni.dev/attachments[].containerID cni.dev/attachments[].ifname
  `,
  boolean: words`
    ipam.in_process ipam.pools[].natOutgoing nodename_file_optional feature_control.ip_addrs_no_ipam
    feature_control.floating_ips container_settings.allow_ip_forwarding include_default_routes drop_privileges
    require_mtu_file windows_use_single_network windows_disable_default_deny_all_policy
    windows_disable_host_subnet_nat_exclusion windows_loopback_DSR
  `,
  integer: words`
    ipam.pools[].blockSize mtu num_queues qps burst log_file_max_size log_file_max_age log_file_max_count
    policy_setup_timeout_seconds ipam_lock_timeout_seconds agent_wait_seconds agent_timeout_seconds
    windows_pod_deletion_timestamp_timeout
  `,
  natural: ["gro_max_size", "gso_max_size", "vxlan_vni"],
  strings: words`
    ipam.ipv4_pools ipam.ipv6_pools readiness_gates runtimeConfig.ips runtimeConfig.dns.servers
    runtimeConfig.dns.searches runtimeConfig.dns.options
  `,
  objects: ["ipam.pools", "cni.dev/valid-attachments", "cni.dev/attachments"],
  object: words`
    ipam policy kubernetes feature_control container_settings dataplane_options runtimeConfig runtimeConfig.dns
  `,
  anything: ["prevResult", "ipam.ranges", "ipam.routes"],
} as const;

type TypeName = keyof typeof TYPES;

const WORDS: Readonly<Record<TypeName, string>> = {
  string: "a string",
  boolean: "a boolean",
  integer: "an integer",
  natural: "an integer that is not negative",
  strings: "a list of strings",
  objects: "a list of objects",
  object: "an object",
  anything: "anything",
};

const SAMPLES: readonly { readonly what: string; readonly value: JsonValue; readonly fits: readonly TypeName[] }[] = [
  { what: "a string", value: "x", fits: ["string"] },
  { what: "an empty string", value: "", fits: ["string"] },
  { what: "the boolean true", value: true, fits: ["boolean"] },
  { what: "the boolean false", value: false, fits: ["boolean"] },
  { what: "an integer", value: 5, fits: ["integer", "natural"] },
  { what: "zero", value: 0, fits: ["integer", "natural"] },
  { what: "a negative integer", value: -1, fits: ["integer"] },
  { what: "a fraction", value: 1.5, fits: [] },
  { what: "a fraction that is whole", value: new RawNumber("1.0"), fits: [] },
  { what: "a number with an exponent", value: new RawNumber("1e3"), fits: [] },
  { what: "the largest signed integer", value: new RawNumber("9223372036854775807"), fits: ["integer", "natural"] },
  { what: "an integer beyond that", value: new RawNumber("9223372036854775808"), fits: ["natural"] },
  { what: "an integer beyond 64 bits", value: new RawNumber("18446744073709551616"), fits: [] },
  { what: "an empty list", value: [], fits: ["strings", "objects"] },
  { what: "a list of strings", value: ["x"], fits: ["strings"] },
  { what: "a list of integers", value: [1], fits: [] },
  { what: "a list of lists", value: [["x"]], fits: [] },
  { what: "a list of objects", value: [{}], fits: ["objects"] },
  { what: "a list with one wrong element", value: ["x", true], fits: [] },
  { what: "an object", value: {}, fits: ["object"] },
];

const keys = Object.entries(TYPES).flatMap(([type, paths]) => paths.map((path) => ({ path: path as string, type: type as TypeName })));

describe("every key of the network configuration", () => {
  it("is in the table of this test with its type, and none is missing", () => {
    const sorted = (list: readonly { path: string; type: string }[]) => list.map(({ path, type }) => `${path}: ${type}`).sort();
    expect(sorted(knownKeys())).toEqual(sorted(keys.map(({ path, type }) => ({ path, type: WORDS[type] }))));
  });

  it.each(keys)("$path takes its type and refuses every other, with the path in the message", ({ path, type }) => {
    const isAccepted = (fits: readonly TypeName[]) => type === "anything" || fits.includes(type);
    const outcomeOf = (value: JsonValue) => {
      try {
        decodeNetworkConfig(nest(path, value));
        return "taken";
      } catch (error) {
        if (!(error instanceof TortieError)) throw error;
        const start = `failed to load netconf: ${path.replaceAll("[]", "[0]")}`;
        return error.word === "netconf-type" && error.code === 999 && error.message.startsWith(start) ? "refused" : error.message;
      }
    };

    expect(SAMPLES.map(({ what, value }) => `${what}: ${outcomeOf(value)}`)).toEqual(
      SAMPLES.map(({ what, fits }) => `${what}: ${isAccepted(fits) ? "taken" : "refused"}`),
    );
  });

  // An absent list of attachments is no empty one, and null is (decode.test.ts, F5).
  const nullable = keys.filter(({ path }) => path !== "cni.dev/valid-attachments" && path !== "cni.dev/attachments");

  it.each(nullable)("$path takes null for absent", ({ path }) => {
    expect(decodeNetworkConfig(nest(path, null))).toEqual(decodeNetworkConfig(nestedNothing(path)));
  });
});

describe("the message about a wrong type", () => {
  it.each([
    [{ ipam: { assign_ipv4: true } }, "ipam.assign_ipv4 must be a string, not the boolean true"],
    [{ ipam: { ipv4_pools: [5] } }, "ipam.ipv4_pools[0] must be a string, not the number 5"],
    [{ mtu: "1500" }, 'mtu must be an integer, not the string "1500"'],
    [{ num_queues: 1.5 }, "num_queues must be an integer, not the number 1.5"],
    [{ vxlan_vni: -1 }, "vxlan_vni must be an integer that is not negative, not the number -1"],
    [{ policy: [] }, "policy must be an object, not a list"],
    [{ readiness_gates: { a: 1 } }, "readiness_gates must be a list of strings, not an object"],
    [{ Ipam: { Assign_IPv6: 1 } }, "Ipam.Assign_IPv6 must be a string, not the number 1"],
    [{ burst: new RawNumber("12345678901234567890123") }, "burst must be an integer, not the number 12345678901234567890123"],
  ])("names the key's path and the value: %j", (netconf, text) => {
    expect(thrownBy(() => decodeNetworkConfig(netconf))).toMatchObject({ message: `failed to load netconf: ${text}` });
  });

  it("cuts long values", () => {
    expect(String(thrownBy(() => decodeNetworkConfig({ mtu: "9".repeat(10_000_000) }))).length).toBeLessThan(200);
  });

  it("never shows what stands where a token belongs", () => {
    const error = thrownBy(() => decodeNetworkConfig({ policy: { k8s_auth_token: 123456789 } }));
    expect(error).toMatchObject({ message: "failed to load netconf: policy.k8s_auth_token must be a string, not a number" });
  });
});

/** {"a": {"b": value}} of "a.b"; the dot of "cni.dev/…" belongs to the key. */
function nest(path: string, value: JsonValue): JsonObject {
  return within(stepsOf(path), value) as JsonObject;
}

/** The same without the last key. */
function nestedNothing(path: string): JsonObject {
  return within(stepsOf(path).slice(0, -1), {}) as JsonObject;
}

function within(steps: ReturnType<typeof stepsOf>, value: JsonValue): JsonValue {
  return steps.reduceRight((inner, { key, isList }) => ({ [key]: isList ? [inner] : inner }), value);
}

function stepsOf(path: string): { readonly key: string; readonly isList: boolean }[] {
  return path
    .replace("cni.dev", "cni|dev")
    .split(".")
    .map((step) => ({ key: step.replaceAll("|", ".").replace("[]", ""), isList: step.endsWith("[]") }));
}
