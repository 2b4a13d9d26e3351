#!/bin/bash
# A docker archive with one layer, the static busybox, under two names: test.local/pause:1 sleeps, test.local/busybox:1 has a shell.
# Usage: busybox-image.sh DIRECTORY   writes DIRECTORY/image.tar
set -euo pipefail
cd "$1"
mkdir -p layer/{bin,etc,proc,sys,dev,tmp,www}
cp /bin/busybox layer/bin/
for applet in $(layer/bin/busybox --list); do [ -e "layer/bin/$applet" ] || ln -s busybox "layer/bin/$applet"; done
echo root:x:0:0:root:/:/bin/sh >layer/etc/passwd
tar --sort=name --owner=0 --group=0 --mtime=@0 -C layer -cf layer.tar .
digest=$(sha256sum layer.tar)
case $(uname -m) in aarch64) architecture=arm64 ;; *) architecture=amd64 ;; esac
config() {
  printf '{"architecture": "%s", "os": "linux", "config": {"Env": ["PATH=/bin"], "Entrypoint": %s, "WorkingDir": "/"}, ' "$architecture" "$1"
  printf '"rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}}' "${digest%% *}"
}
config '["/bin/sleep", "2147483647"]' >pause.json
config '["/bin/sh"]' >busybox.json
cat >manifest.json <<JSON
[{"Config": "pause.json", "RepoTags": ["test.local/pause:1"], "Layers": ["layer.tar"]},
 {"Config": "busybox.json", "RepoTags": ["test.local/busybox:1"], "Layers": ["layer.tar"]}]
JSON
tar -cf image.tar manifest.json pause.json busybox.json layer.tar
