import { decodeNetworkConfig } from "../../../../lib/config/decode.ts";
import { parseJson } from "../../../../lib/json/parse.ts";
import { isJsonObject, type JsonObject, RawNumber } from "../../../../lib/json/value.ts";

describe("decodeNetworkConfig", () => {
  it("fills in the defaults of C§1.2", () => {
    expect(decodeNetworkConfig({})).toEqual({
      cniVersion: undefined,
      name: "",
      type: "",
      ipam: {
        type: "",
        subnet: undefined,
        ranges: undefined,
        routes: undefined,
        assignIpv4: true,
        assignIpv6: false,
        ipv4Pools: undefined,
        ipv6Pools: undefined,
        pools: [],
        inProcess: true,
      },
      mtu: 0,
      numQueues: 1,
      deviceType: "",
      linkForm: "",
      chain: "",
      groMaxSize: 0,
      gsoMaxSize: 0,
      nodename: undefined,
      nodenameFile: "/var/lib/calico/nodename",
      nodenameFileOptional: false,
      hostname: undefined,
      ipamLockFile: "/var/run/calico/ipam.lock",
      ipamLockTimeoutSeconds: 90,
      dropPrivileges: true,
      datastoreType: undefined,
      datastorePath: "/var/lib/tortie/tortie.db",
      etcd: { endpoints: undefined, discoverySrv: undefined, keyFile: undefined, certFile: undefined, caCertFile: undefined },
      agent: { mode: "auto", socket: undefined, waitSeconds: 60, timeoutSeconds: 90 },
      log: { level: "info", filePath: undefined, fileMaxSize: 100, fileMaxAge: 30, fileMaxCount: 10 },
      policy: {
        type: "",
        k8sApiRoot: undefined,
        k8sAuthToken: undefined,
        k8sClientCertificate: undefined,
        k8sClientKey: undefined,
        k8sCertificateAuthority: undefined,
      },
      kubernetes: { kubeconfig: undefined, k8sApiRoot: undefined, nodeName: undefined },
      calicoApiGroup: undefined,
      qps: 0,
      burst: 0,
      featureControl: { ipAddrsNoIpam: false, floatingIps: false },
      containerSettings: { allowIpForwarding: false },
      includeDefaultRoutes: false,
      dataplaneOptions: undefined,
      readinessGates: [],
      policySetupTimeoutSeconds: 0,
      endpointStatusDir: "/var/run/calico/endpoint-status",
      requireMtuFile: false,
      windowsUseSingleNetwork: false,
      runtimeConfig: { mac: undefined, ips: [] },
      mesosLabels: [],
      prevResult: undefined,
      validAttachments: undefined,
    });
  });

  it("carries every value to its field", () => {
    const config = decodeNetworkConfig(netconf(EVERY_KEY));
    expect(config).toEqual({
      cniVersion: "1.1.0",
      name: "net1",
      type: "tortie",
      ipam: {
        type: "tortie-ipam",
        subnet: "usePodCidr",
        ranges: [[{ subnet: "10.1.0.0/16" }]],
        routes: [{ dst: "10.0.0.0/8" }],
        assignIpv4: false,
        assignIpv6: true,
        ipv4Pools: ["p4"],
        ipv6Pools: ["p6"],
        pools: [{ cidr: "10.244.0.0/16", blockSize: 28, name: "mine", natOutgoing: false }],
        inProcess: false,
      },
      mtu: 1400,
      numQueues: 4,
      deviceType: "netkit",
      linkForm: "",
      chain: "",
      groMaxSize: 0,
      gsoMaxSize: 0,
      nodename: "n1",
      nodenameFile: "/n",
      nodenameFileOptional: true,
      hostname: "h1",
      ipamLockFile: "/l",
      ipamLockTimeoutSeconds: 8,
      dropPrivileges: false,
      datastoreType: "local",
      datastorePath: "/d",
      etcd: { endpoints: "http://e", discoverySrv: "srv", keyFile: "/k", certFile: "/c", caCertFile: "/ca" },
      agent: { mode: "require", socket: "/s", waitSeconds: 5, timeoutSeconds: 6 },
      log: { level: "debug", filePath: "/log", fileMaxSize: 1, fileMaxAge: 2, fileMaxCount: 3 },
      policy: {
        type: "k8s",
        k8sApiRoot: "https://r",
        k8sAuthToken: "tok",
        k8sClientCertificate: "/cc",
        k8sClientKey: "/ck",
        k8sCertificateAuthority: "/cca",
      },
      kubernetes: { kubeconfig: "/kc", k8sApiRoot: "https://kr", nodeName: "kn" },
      calicoApiGroup: "projectcalico.org/v3",
      qps: 5,
      burst: 6,
      featureControl: { ipAddrsNoIpam: true, floatingIps: true },
      containerSettings: { allowIpForwarding: true },
      includeDefaultRoutes: true,
      dataplaneOptions: { type: "grpc", socket: "unix:///s" },
      readinessGates: ["http://g"],
      policySetupTimeoutSeconds: 7,
      endpointStatusDir: "/e",
      requireMtuFile: true,
      windowsUseSingleNetwork: true,
      runtimeConfig: { mac: "02:00:00:00:00:01", ips: ["10.244.0.9/16"] },
      mesosLabels: [{ key: "k", value: "v" }],
      prevResult: { cniVersion: "1.1.0" },
      validAttachments: [{ containerID: "c1", ifname: "eth0" }],
    });
  });

  it("finds keys in any letter case and merges sections given under several spellings (recording keys-case)", () => {
    const config = decodeNetworkConfig(
      netconf('{"ipam":{"type":"calico-ipam"},"MTU":1400,"unknown":{"x":[1]},"Ipam":{"Assign_IPv6":"true"}}'),
    );
    expect(config.mtu).toBe(1400);
    expect(config.ipam).toMatchObject({ type: "calico-ipam", assignIpv6: true });
  });

  it("takes the last one of a plain key given under several spellings, and passes null over", () => {
    expect(decodeNetworkConfig(netconf('{"mtu":1400,"MTU":1500}')).mtu).toBe(1500);
    expect(decodeNetworkConfig(netconf('{"MTU":1500,"mtu":1400}')).mtu).toBe(1400);
    expect(decodeNetworkConfig(netconf('{"mtu":1400,"MTU":null}')).mtu).toBe(1400);
  });

  it("judges the type of every spelling, not only of the one that counts", () => {
    expect(() => decodeNetworkConfig(netconf('{"MTU":"x","mtu":1400}'))).toThrow("MTU must be an integer");
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
    const config = decodeNetworkConfig(netconf('{"name":"net1","mtu":null,"dns":null,"args":null,"prevResult":null,"ipam":null}'));
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
    expect(decodeNetworkConfig(netconf(`{"num_queues":${given}}`)).numQueues).toBe(queues);
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

  it("takes empty texts for absent", () => {
    expect(decodeNetworkConfig({ nodename: "", nodename_file: "", datastore_path: "", datastore_type: "" })).toEqual(
      decodeNetworkConfig({}),
    );
  });

  it("does not look at keys it does not know", () => {
    expect(decodeNetworkConfig(netconf('{"x":[1],"ipam":{"x":{}},"dns":5,"capabilities":"y"}'))).toEqual(decodeNetworkConfig({}));
  });

  it("is not impressed by a key named __proto__", () => {
    expect(decodeNetworkConfig(netconf('{"__proto__":{"mtu":9000},"ipam":{"__proto__":{"type":"x"}}}'))).toEqual(decodeNetworkConfig({}));
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

function netconf(text: string): JsonObject {
  const value = parseJson(text);
  if (!isJsonObject(value)) throw new Error("not an object");
  return value;
}

const EVERY_KEY = JSON.stringify({
  cniVersion: "1.1.0",
  name: "net1",
  type: "tortie",
  ipam: {
    type: "tortie-ipam",
    subnet: "usePodCidr",
    ranges: [[{ subnet: "10.1.0.0/16" }]],
    routes: [{ dst: "10.0.0.0/8" }],
    assign_ipv4: "false",
    assign_ipv6: "true",
    ipv4_pools: ["p4"],
    ipv6_pools: ["p6"],
    pools: [{ cidr: "10.244.0.0/16", blockSize: 28, name: "mine", natOutgoing: false }],
    in_process: false,
  },
  args: { "org.apache.mesos": { network_info: { labels: { labels: [{ key: "k", value: "v" }] } } }, cni: { ips: ["10.0.0.1"] } },
  mtu: 1400,
  num_queues: 4,
  device_type: "netkit",
  nodename: "n1",
  nodename_file: "/n",
  nodename_file_optional: true,
  hostname: "h1",
  ipam_lock_file: "/l",
  ipam_lock_timeout_seconds: 8,
  drop_privileges: false,
  datastore_type: "local",
  datastore_path: "/d",
  etcd_endpoints: "http://e",
  etcd_discovery_srv: "srv",
  etcd_key_file: "/k",
  etcd_cert_file: "/c",
  etcd_ca_cert_file: "/ca",
  agent: "require",
  agent_socket: "/s",
  agent_wait_seconds: 5,
  agent_timeout_seconds: 6,
  log_level: "debug",
  log_file_path: "/log",
  log_file_max_size: 1,
  log_file_max_age: 2,
  log_file_max_count: 3,
  policy: {
    type: "k8s",
    k8s_api_root: "https://r",
    k8s_auth_token: "tok",
    k8s_client_certificate: "/cc",
    k8s_client_key: "/ck",
    k8s_certificate_authority: "/cca",
  },
  kubernetes: { kubeconfig: "/kc", k8s_api_root: "https://kr", node_name: "kn" },
  calico_api_group: "projectcalico.org/v3",
  qps: 5,
  burst: 6,
  feature_control: { ip_addrs_no_ipam: true, floating_ips: true },
  container_settings: { allow_ip_forwarding: true },
  include_default_routes: true,
  dataplane_options: { type: "grpc", socket: "unix:///s" },
  readiness_gates: ["http://g"],
  policy_setup_timeout_seconds: 7,
  endpoint_status_dir: "/e",
  require_mtu_file: true,
  windows_use_single_network: true,
  runtimeConfig: { mac: "02:00:00:00:00:01", ips: ["10.244.0.9/16"], portMappings: [{ hostPort: 1 }] },
  prevResult: { cniVersion: "1.1.0" },
  "cni.dev/valid-attachments": [{ containerID: "c1", ifname: "eth0" }],
});
