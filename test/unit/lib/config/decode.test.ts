import { decodeNetworkConfig } from "../../../../lib/config/decode.ts";
import { type JsonObject, RawNumber } from "../../../../lib/json/value.ts";
import { jsonObject } from "../../../support/json-object.ts";

/** Keys and fields, "a > b" in a section; the default of the field (C§1.2), a value of the key, and what the field has then if not the same. */
const KEYS: readonly (readonly [key: string, field: string, standard: unknown, given: unknown, taken?: unknown])[] = [
  ["cniVersion", "cniVersion", undefined, "1.1.0"],
  ["name", "name", "", "net1"],
  ["type", "type", "", "tortie"],
  ["ipam > type", "ipam > type", "", "tortie-ipam"],
  ["ipam > subnet", "ipam > subnet", undefined, "usePodCidr"],
  ["ipam > ranges", "ipam > ranges", undefined, [[{ subnet: "10.1.0.0/16" }]]],
  ["ipam > routes", "ipam > routes", undefined, [{ dst: "10.0.0.0/8" }]],
  ["ipam > assign_ipv4", "ipam > assignIpv4", true, "false", false],
  ["ipam > assign_ipv6", "ipam > assignIpv6", false, "true", true],
  ["ipam > ipv4_pools", "ipam > ipv4Pools", undefined, ["p4"]],
  ["ipam > ipv6_pools", "ipam > ipv6Pools", undefined, ["p6"]],
  ["ipam > pools", "ipam > pools", [], [{ cidr: "10.244.0.0/16", blockSize: 28, name: "mine", natOutgoing: false }]],
  ["ipam > in_process", "ipam > inProcess", true, false],
  ["mtu", "mtu", 0, 1400],
  ["num_queues", "numQueues", 1, 4],
  ["device_type", "deviceType", "", "netkit"],
  ["link_form", "linkForm", "", "endpoint"],
  ["chain", "chain", "", "attach"],
  ["gro_max_size", "groMaxSize", 0, 131_072],
  ["gso_max_size", "gsoMaxSize", 0, 65_536],
  ["nodename", "nodename", undefined, "n1"],
  ["nodename_file", "nodenameFile", "/var/lib/calico/nodename", "/n"],
  ["nodename_file_optional", "nodenameFileOptional", false, true],
  ["hostname", "hostname", undefined, "h1"],
  ["ipam_lock_file", "ipamLockFile", "/var/run/calico/ipam.lock", "/l"],
  ["ipam_lock_timeout_seconds", "ipamLockTimeoutSeconds", 90, 8],
  ["drop_privileges", "dropPrivileges", true, false],
  ["datastore_type", "datastoreType", undefined, "local"],
  ["datastore_path", "datastorePath", "/var/lib/tortie/tortie.db", "/d"],
  ["etcd_endpoints", "etcd > endpoints", undefined, "http://e"],
  ["etcd_discovery_srv", "etcd > discoverySrv", undefined, "srv"],
  ["etcd_key_file", "etcd > keyFile", undefined, "/k"],
  ["etcd_cert_file", "etcd > certFile", undefined, "/c"],
  ["etcd_ca_cert_file", "etcd > caCertFile", undefined, "/ca"],
  ["agent", "agent > mode", "off", "require"],
  ["agent_socket", "agent > socket", undefined, "/s"],
  ["agent_wait_seconds", "agent > waitSeconds", 15, 5],
  ["agent_timeout_seconds", "agent > timeoutSeconds", 90, 6],
  ["log_level", "log > level", "info", "debug"],
  ["log_file_path", "log > filePath", undefined, "/log"],
  ["log_file_max_size", "log > fileMaxSize", 100, 1],
  ["log_file_max_age", "log > fileMaxAge", 30, 2],
  ["log_file_max_count", "log > fileMaxCount", 10, 3],
  ["policy > type", "policy > type", "", "k8s"],
  ["policy > k8s_api_root", "policy > k8sApiRoot", undefined, "https://r"],
  ["policy > k8s_auth_token", "policy > k8sAuthToken", undefined, "tok"],
  ["policy > k8s_client_certificate", "policy > k8sClientCertificate", undefined, "/cc"],
  ["policy > k8s_client_key", "policy > k8sClientKey", undefined, "/ck"],
  ["policy > k8s_certificate_authority", "policy > k8sCertificateAuthority", undefined, "/cca"],
  ["kubernetes > kubeconfig", "kubernetes > kubeconfig", undefined, "/kc"],
  ["kubernetes > k8s_api_root", "kubernetes > k8sApiRoot", undefined, "https://kr"],
  ["kubernetes > node_name", "kubernetes > nodeName", undefined, "kn"],
  ["calico_api_group", "calicoApiGroup", undefined, "projectcalico.org/v3"],
  ["qps", "qps", 0, 5],
  ["burst", "burst", 0, 6],
  ["feature_control > ip_addrs_no_ipam", "featureControl > ipAddrsNoIpam", false, true],
  ["feature_control > floating_ips", "featureControl > floatingIps", false, true],
  ["container_settings > allow_ip_forwarding", "containerSettings > allowIpForwarding", false, true],
  ["include_default_routes", "includeDefaultRoutes", false, true],
  ["dataplane_options", "dataplaneOptions", undefined, { type: "grpc", socket: "unix:///s" }],
  ["readiness_gates", "readinessGates", [], ["http://g"]],
  ["policy_setup_timeout_seconds", "policySetupTimeoutSeconds", 0, 7],
  ["endpoint_status_dir", "endpointStatusDir", "/var/run/calico/endpoint-status", "/e"],
  ["require_mtu_file", "requireMtuFile", false, true],
  ["windows_use_single_network", "windowsUseSingleNetwork", false, true],
  ["runtimeConfig > mac", "runtimeConfig > mac", undefined, "02:00:00:00:00:01"],
  ["runtimeConfig > ips", "runtimeConfig > ips", [], ["10.244.0.9/16"]],
  ["prevResult", "prevResult", undefined, { cniVersion: "1.1.0" }],
  ["cni.dev/valid-attachments", "validAttachments", undefined, [{ containerID: "c1", ifname: "eth0" }]],
];

describe("decodeNetworkConfig", () => {
  it("fills in the defaults of C§1.2", () => {
    expect(decodeNetworkConfig({})).toEqual(objectOf(KEYS.map(([, field, standard]) => [field, standard])));
  });

  it("carries every value to its field", () => {
    const unused = [
      ["args", { cni: { ips: ["10.0.0.1"] }, "org.apache.mesos": 7 }],
      ["runtimeConfig > portMappings", [{ hostPort: 1 }]],
    ] as const;
    const given = objectOf([...KEYS.map(([key, , , value]) => [key, value] as const), ...unused]);
    expect(decodeNetworkConfig(jsonObject(JSON.stringify(given)))).toEqual(
      objectOf(KEYS.map(([, field, , value, taken = value]) => [field, taken])),
    );
  });

  it("finds keys in any letter case and merges sections given under several spellings (recording keys-case)", () => {
    const config = decodeNetworkConfig(
      jsonObject('{"ipam":{"type":"calico-ipam"},"MTU":1400,"unknown":{"x":[1]},"Ipam":{"Assign_IPv6":"true"}}'),
    );
    expect(config.mtu).toBe(1400);
    expect(config.ipam).toMatchObject({ type: "calico-ipam", assignIpv6: true });
  });

  it("takes the last one of a plain key given under several spellings, and passes null over", () => {
    expect(decodeNetworkConfig(jsonObject('{"mtu":1400,"MTU":1500}')).mtu).toBe(1500);
    expect(decodeNetworkConfig(jsonObject('{"MTU":1500,"mtu":1400}')).mtu).toBe(1400);
    expect(decodeNetworkConfig(jsonObject('{"mtu":1400,"MTU":null}')).mtu).toBe(1400);
  });

  it("judges the type of every spelling, not only of the one that counts", () => {
    expect(() => decodeNetworkConfig(jsonObject('{"MTU":"x","mtu":1400}'))).toThrow("MTU must be an integer");
  });

  it("folds the long s and the Kelvin sign as Unicode does, so that no second parser reads another key", () => {
    expect(decodeNetworkConfig({ "ho\u017ftname": "h", lo\u{212a}: 1, "\u212aubernetes": { node_name: "n" } } as JsonObject)).toMatchObject(
      {
        hostname: "h",
        kubernetes: { nodeName: "n" },
      },
    );
  });

  it("leaves the defaults where null is given (recording null-keys)", () => {
    const config = decodeNetworkConfig(jsonObject('{"name":"net1","mtu":null,"dns":null,"args":null,"prevResult":null,"ipam":null}'));
    expect(config).toEqual({ ...decodeNetworkConfig({}), name: "net1" });
  });

  it("accepts a prevResult that is no object, and ignores it (recording type-prevResult)", () => {
    expect(decodeNetworkConfig({ prevResult: "x" }).prevResult).toBeUndefined();
  });

  it.each([
    ["", "", true, false],
    ["False", "TRUE", true, false],
    ["false", "true", false, true],
  ])("reads assign_ipv4 %j and assign_ipv6 %j by the exact words (recordings family-*)", (assign_ipv4, assign_ipv6, ipv4, ipv6) => {
    expect(decodeNetworkConfig({ ipam: { assign_ipv4, assign_ipv6 } }).ipam).toMatchObject({ assignIpv4: ipv4, assignIpv6: ipv6 });
  });

  it.each([
    ["0", 1],
    ["-3", 1],
    ["1", 1],
    ["4", 4],
    ["5000", 5000],
  ])("makes num_queues %s at least one (recordings num-queues-*)", (given, queues) => {
    expect(decodeNetworkConfig(jsonObject(`{"num_queues":${given}}`)).numQueues).toBe(queues);
  });

  it("keeps a negative mtu, which is printed as it is (recording mtu--1)", () => {
    expect(decodeNetworkConfig({ mtu: -1 }).mtu).toBe(-1);
  });

  it.each([
    ["DEBUG", "debug"],
    ["Info", "info"],
    ["eRRor", "error"],
    ["warning", "info"],
    ["", "info"],
  ])("reads log_level %j as %s", (given, level) => {
    expect(decodeNetworkConfig({ log_level: given }).log.level).toBe(level);
  });

  it("takes zero and negative log limits for the defaults", () => {
    expect(decodeNetworkConfig({ log_file_max_size: 0, log_file_max_age: -1, log_file_max_count: 0 }).log).toMatchObject({
      fileMaxSize: 100,
      fileMaxAge: 30,
      fileMaxCount: 10,
    });
  });

  it.each([
    ["takes empty texts for absent", '{"nodename":"","nodename_file":"","datastore_path":"","datastore_type":""}'],
    ["does not look at keys it does not know", '{"x":[1],"ipam":{"x":{}},"dns":5,"capabilities":"y"}'],
    ["is not impressed by a key named __proto__", '{"__proto__":{"mtu":9000},"ipam":{"__proto__":{"type":"x"}}}'],
  ])("%s", (_, text) => {
    expect(decodeNetworkConfig(jsonObject(text))).toEqual(decodeNetworkConfig({}));
  });

  it("F5: takes null for an empty list of attachments, which is what libcni sends of a node without containers", () => {
    for (const key of ["cni.dev/valid-attachments", "cni.dev/attachments"]) {
      expect(decodeNetworkConfig({ [key]: null }).validAttachments).toEqual([]);
    }
  });

  it("F5: keeps what either key of attachments lists", () => {
    const [one, two] = [
      { containerID: "c1", ifname: "eth0" },
      { containerID: "c2", ifname: "eth0" },
    ];
    expect(decodeNetworkConfig({ "cni.dev/attachments": [one] }).validAttachments).toEqual([one]);
    const both = decodeNetworkConfig({ "cni.dev/valid-attachments": [one], "cni.dev/attachments": [two] });
    expect(both.validAttachments).toEqual([one, two]);
    expect(decodeNetworkConfig({ "cni.dev/valid-attachments": null, "cni.dev/attachments": [two] }).validAttachments).toEqual([two]);
  });

  it("tells an empty list of valid attachments from an absent one", () => {
    expect(decodeNetworkConfig({ "cni.dev/valid-attachments": [] }).validAttachments).toEqual([]);
    expect(decodeNetworkConfig({}).validAttachments).toBeUndefined();
  });

  it("gives a number beyond 2^53 as the nearest that there is", () => {
    expect(decodeNetworkConfig({ burst: new RawNumber("9007199254740993") }).burst).toBe(9007199254740992);
  });
});

/** An object of values that are named by their paths. */
function objectOf(values: readonly (readonly [path: string, value: unknown])[]): Readonly<Record<string, unknown>> {
  const whole: Record<string, unknown> = {};
  for (const [path, value] of values) put(whole, path.split(" > "), value);
  return whole;
}

function put(section: Record<string, unknown>, [key = "", ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) {
    section[key] = value;
    return;
  }
  section[key] ??= {};
  put(section[key] as Record<string, unknown>, rest, value);
}
