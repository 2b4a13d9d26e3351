/** The sandbox of the suites (scripts/sandbox), started on a pretend machine whose directories are in use. */
import { execaSync } from "execa";

/** Makes mounts in a namespace of its own, above what this suite's sandbox has, then runs the command in a sandbox. */
const MACHINE = `
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt && cd /mnt
mkdir -p etc/tortie/policies etc/cni/net.d opt/cni/bin opt/other lib/calico lib/tortie lib/cni/networks log/calico
echo 10.0.0.1 machine >etc/hosts
ln -s hosts etc/link
echo {} >etc/cni/net.d/00-x.conflist
echo other >opt/other/file
: >opt/cni/bin/tortie
echo stranger >lib/calico/nodename
: >lib/tortie/tortie.db
: >log/calico/cni.log
mkdir -p run/tortie
for kind in etc opt run; do mount --rbind $kind /$kind; done
# Docker does this to some files of /etc.
mount --bind etc/hosts /etc/hosts
for kind in lib log; do mount --rbind $kind /var/$kind; done
cd "$OLDPWD"
`;
/** Directories that no machine has to have. */
const BARE = `
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt && cd /mnt
mkdir etc opt
for kind in etc opt; do mount --bind $kind /$kind; done
cd "$OLDPWD"
`;
const EMPTY = ["/etc/tortie", "/etc/cni", "/opt/cni", "/var/lib/tortie", "/var/lib/cni", "/var/lib/calico", "/var/log/calico"];

/** @returns what a command in a sandbox prints, line by line, and what the machine says afterwards */
function inSandbox(machine: string, command: string, after = ""): readonly string[] {
  const script = `set -e\n${machine}\nPATH=/usr/sbin:/usr/bin:/sbin:/bin bash scripts/sandbox bash -c "$1"\n${after}`;
  const { stdout } = execaSync("unshare", ["--mount", "bash", "-c", script, "machine", command]);
  return stdout.split("\n").filter((line) => line !== "");
}

describe.each([
  ["a machine with CNI plugins, policies and state", MACHINE],
  ["a machine without these directories", BARE],
])("The sandbox on %s", (_, machine) => {
  it("has empty directories for plugins, policies and state", () => {
    expect(inSandbox(machine, `for place in ${EMPTY.join(" ")}; do [ -d $place ] && find $place -mindepth 1; done`)).toEqual([]);
  });

  it("has a /run with nothing but a place for network namespaces", () => {
    expect(inSandbox(machine, "find /run -mindepth 1 ! -path '/run/mount*'")).toEqual(["/run/netns"]);
  });

  it("has only a loopback", () => {
    expect(inSandbox(machine, "ls /sys/class/net; ip -o route show table all type unicast")).toEqual(["lo"]);
  });

  it("refuses writes to /etc and /opt", () => {
    const places = ["/etc", "/etc/tortie", "/etc/cni", "/opt", "/opt/cni"];
    const attempt = `for place in ${places.join(" ")}; do if touch $place/new 2>/dev/null; then echo $place; fi; done`;
    expect(inSandbox(machine, attempt, "ls -d /etc/new /opt/new 2>/dev/null || true")).toEqual([]);
  });

  it("leaves no directory on the machine", () => {
    const list = "find /etc /opt -mindepth 1 | sort";
    expect(inSandbox(machine, "true", list)).toEqual(inSandbox(`${machine}\n${list}`, "true"));
  });
});

it("The sandbox keeps what else the machine has in /etc and /opt", () => {
  const command = "cat /etc/hosts; readlink /etc/link; ls -A /etc /opt; cat /opt/other/file";
  const others = ["/etc:", "cni", "hosts", "link", "tortie", "/opt:", "cni", "other", "other"];
  expect(inSandbox(MACHINE, command)).toEqual(["10.0.0.1 machine", "hosts", ...others]);
});
