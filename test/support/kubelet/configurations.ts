/** What containerd and kubelet are told. Debian's containerd 1.6 speaks version 2 of its file. */
import { PAUSE_IMAGE } from "./image.ts";

export interface Places {
  /** Of the run; short, since sockets lie below it. */
  readonly dir: string;
  readonly binDir: string;
  readonly netDir: string;
}

/** A registry of the node itself, where a test has one. */
export const REGISTRY = "127.0.0.1:5000";

/** Images without a registry in their name come from here; to the nodes of the suite theirs is a mirror of it. */
export const MIRRORED = "docker.io";

/** How the runtime reaches it: without TLS (docs/hosts.md of containerd). */
export const REGISTRY_HOSTS = `server = "http://${REGISTRY}"
[host."http://${REGISTRY}"]
  capabilities = ["pull", "resolve"]
`;

/** Without CAP_SYS_RESOURCE runc fails unless the score is restricted ("can't get final child's PID from pipe: EOF"). */
export function containerdConfiguration({ dir, binDir, netDir }: Places): string {
  return `version = 2
root = "${dir}/containerd"
state = "${dir}/run"
disabled_plugins = ["io.containerd.internal.v1.restart", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "${dir}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "${dir}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "${dir}/certs.d"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${binDir}"
    conf_dir = "${netDir}"
    max_conf_num = 1
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "${dir}/runc"
`;
}

/** An image that was collected could not be pulled again, and nothing of the machine's state may evict a pod of the test. */
export function kubeletConfiguration(dir: string, cgroupRoot: string, address: string, authority: string): string {
  return JSON.stringify({
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    address,
    readOnlyPort: 0,
    // The API server shows a certificate when somebody asks it for a log or an exec.
    authentication: { anonymous: { enabled: false }, webhook: { enabled: false }, x509: { clientCAFile: authority } },
    authorization: { mode: "AlwaysAllow" },
    containerRuntimeEndpoint: `unix://${dir}/containerd.sock`,
    podLogsDir: `${dir}/podlogs`,
    cgroupDriver: "cgroupfs",
    cgroupRoot,
    failCgroupV1: false,
    failSwapOn: false,
    makeIPTablesUtilChains: false,
    maxPods: 250,
    resolvConf: "",
    // As in any cluster: without one kubelet writes an event for each pod that is not of the host's network, and their times would not compare.
    clusterDNS: ["10.96.0.10"],
    clusterDomain: "cluster.local",
    registerNode: true,
    imageGCHighThresholdPercent: 100,
    evictionHard: { "memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%" },
  });
}
