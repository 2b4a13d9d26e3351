#!/bin/bash
# containerd in a mount and pid namespace of its own, with everything it writes below one short directory: when this process
# ends, the kernel ends all of it. Called by containerd.ts inside the network namespace that plays the host.
# Usage: start.sh DIRECTORY CNI_BIN_DIR CNI_CONF_DIR
set -euo pipefail
directory=$1 plugins=$2 networks=$3
if [ "${inside-}" != yes ]; then
  inside=yes exec unshare --mount --pid --fork --kill-child --mount-proc --propagation private "$0" "$@"
fi

# `ip netns exec` and the sandbox mount a bare /sys: runc needs the control groups of the machine.
if [ -e /sys/fs/cgroup/cgroup.controllers ] || mountpoint -q /sys/fs/cgroup/memory; then :
elif grep -q '^0::' /proc/self/cgroup && [ "$(wc -l </proc/self/cgroup)" -eq 1 ]; then
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
else
  mount -t tmpfs tmpfs /sys/fs/cgroup
  while IFS=: read -r _ controllers _; do
    case $controllers in "" | name=*) continue ;; esac
    mkdir "/sys/fs/cgroup/$controllers"
    mount -t cgroup -o "$controllers" cgroup "/sys/fs/cgroup/$controllers"
  done </proc/self/cgroup
fi

# ctr of containerd 1.6 knows only these two places; what the machine has there stays as it is.
for pair in "$plugins:opt/cni/bin" "$networks:etc/cni/net.d"; do
  target=${pair#*:} top=${pair#*:}
  top=${top%%/*}
  mkdir -p "$directory/over/$top" "$directory/work/$top"
  mount -t overlay overlay -o "lowerdir=/$top,upperdir=$directory/over/$top,workdir=$directory/work/$top" "/$top"
  mkdir -p "/$target"
  mount --bind "${pair%%:*}" "/$target"
done

cat >"$directory/config.toml" <<TOML
version = 2
root = "$directory/root"
state = "$directory/state"
[grpc]
  address = "$directory/sock"
[ttrpc]
  address = "$directory/sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "$directory/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "test.local/pause:1"
  # runc fails where root lacks CAP_SYS_RESOURCE otherwise.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$plugins"
    conf_dir = "$networks"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      Root = "$directory/runc"
TOML
exec containerd --config "$directory/config.toml" --log-level info
