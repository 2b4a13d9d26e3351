#!/bin/bash
# containerd in mount, pid and cgroup namespaces of its own, with everything it writes below one short directory: when this
# program ends, all of it ends, and the machine's control groups are as before. Stop it with TERM.
# Called by containerd.ts inside the network namespace that plays the host.
# Usage: start.sh DIRECTORY CNI_BIN_DIR CNI_CONF_DIR
set -euo pipefail
directory=$1 plugins=$2 networks=$3
group=tortie-${directory##*/}

# mount_groups WHERE: the hierarchies that this process is in, as this cgroup namespace shows them, one folder each.
mount_groups() {
  while IFS=: read -r _ controllers _; do
    case $controllers in
      "") folder=unified type=cgroup2 options=rw ;;
      name=*) folder=${controllers#name=} type=cgroup options=none,$controllers ;;
      *) folder=$controllers type=cgroup options=$controllers ;;
    esac
    mkdir -p "$1/$folder"
    mount -t "$type" -o "$options" "$group" "$1/$folder"
  done </proc/self/cgroup
}
only_unified() { [ "$(wc -l </proc/self/cgroup)" -eq 1 ]; }

if [ -z "${inside-}" ]; then
  # Mounts of this shell are not the machine's: `ip netns exec` made a mount namespace.
  groups=$directory/groups
  mkdir "$groups"
  mount -t tmpfs tmpfs "$groups"
  mount_groups "$groups"
  below() { # the folder of this process in hierarchy $1
    local path
    path=$(awk -F: -v name="$1" '$2 == name || $2 == "name=" name || ($2 == "" && name == "unified") { print $3 }' /proc/self/cgroup)
    echo "$groups/$1${path%/}"
  }
  declare -A home
  for hierarchy in $(ls "$groups"); do home[$hierarchy]=$(below "$hierarchy"); done
  leave() {
    set +e
    for hierarchy in "${!home[@]}"; do
      echo $$ >"${home[$hierarchy]}/cgroup.procs"
      # A process that was killed leaves its group a little later.
      for _ in $(seq 50); do
        find "${home[$hierarchy]}/$group" -depth -type d -exec rmdir {} + 2>/dev/null && break
        sleep 0.1
      done
    done
  }
  trap leave EXIT
  for hierarchy in "${!home[@]}"; do
    mkdir "${home[$hierarchy]}/$group"
    if [ "$hierarchy" = cpuset ]; then
      for file in cpuset.cpus cpuset.mems; do cat "${home[$hierarchy]}/$file" >"${home[$hierarchy]}/$group/$file"; done
    fi
    echo $$ >"${home[$hierarchy]}/$group/cgroup.procs"
  done
  inside=yes unshare --mount --pid --cgroup --fork --kill-child --mount-proc --propagation private "$0" "$@" &
  child=$!
  trap 'kill -KILL "$child"' TERM INT
  # The first wait is cut short by the signal, the second sees the child end.
  wait "$child" || wait "$child" || true
  exit 0
fi

# `ip netns exec` and the sandbox mount a bare /sys.
if only_unified; then
  mount -t cgroup2 "$group" /sys/fs/cgroup
  # A group that has processes of its own cannot give controllers to groups below it.
  mkdir /sys/fs/cgroup/daemon
  for pid in $(cat /sys/fs/cgroup/cgroup.procs); do echo "$pid" >/sys/fs/cgroup/daemon/cgroup.procs || true; done
  for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control || true; done
else
  mount -t tmpfs tmpfs /sys/fs/cgroup
  mount_groups /sys/fs/cgroup
fi

# ctr of containerd 1.6 knows only these two places; what the machine has there stays as it is.
for pair in "$plugins:opt/cni/bin" "$networks:etc/cni/net.d"; do
  target=${pair#*:}
  top=${target%%/*}
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
