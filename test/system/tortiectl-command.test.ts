/** The command line of `tortiectl`: exit statuses, help, and what people see. */
import { chmodSync, copyFileSync, linkSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { localConf } from "../support/conf.ts";
import { BIN_DIR, Node, type RunResult } from "../support/node.ts";
import { words } from "../support/words.ts";

async function tortiectl(argv: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<RunResult> {
  await using node = await Node.create();
  return await node.run([join(BIN_DIR, "tortiectl"), ...argv], { env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", ...env } });
}

describe("tortiectl", () => {
  it.each([["version"], ["--version"]])("%s prints the version of the package", async (argument) => {
    const { version } = JSON.parse(readFileSync("package.json", "utf8"));

    expect(await tortiectl([argument])).toMatchObject({ exit: 0, stdout: `${version}\n`, stderr: "" });
  });

  it("a wrong command line ends with status 2, what is wrong and what would be right", async () => {
    expect(await tortiectl(["cni", "ad", "x", "y"])).toMatchObject({
      exit: 2,
      stdout: "",
      stderr: [
        'tortiectl: there is no command "ad" of cni: did you mean tortiectl cni add?',
        "  next  the commands of cni are add, del, check, status, gc; tortiectl cni --help says what each does (subcommand-unknown)",
        "",
      ].join("\n"),
    });
  });

  it("S12: repeats what is not its own without its control characters, and keeps its own colours", async () => {
    const run = await tortiectl(["node", "status", "--socket", "/run/\x1b]0;OWNED\x07"], { FORCE_COLOR: "1" });

    expect(run.exit).toBe(1);
    expect(run.stderr).toContain("/run/\\u001b]0;OWNED\\u0007");
    expect(run.stderr).toContain("\x1b[31m");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what must not be there
    expect(run.stderr.replaceAll(/\x1b\[\d+m/g, "")).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/);
  });

  it("cni add --help names every option", async () => {
    const run = await tortiectl(["cni", "add", "--help"]);

    expect(run).toMatchObject({ exit: 0, stderr: "" });
    for (const option of words`container-id ifname args port-mapping bandwidth mac ips capability-args cni-path json`) {
      expect(run.stdout).toContain(`--${option}`);
    }
  });

  it("tells what failed and what to do next, in colour only on request", async () => {
    const plain = await tortiectl(["cni", "add", "/nowhere/list", "blue"]);
    const coloured = await tortiectl(["cni", "add", "/nowhere/list", "blue"], { FORCE_COLOR: "1" });

    expect(plain).toMatchObject({ exit: 1, stdout: "" });
    expect(plain.stderr).toMatch(
      /^tortiectl: \/nowhere\/list cannot be read: ENOENT.*\n {2}next {2}give the path of a network configuration list.* \(conflist-unreadable\)\n$/,
    );
    expect(coloured.stderr).toContain("\u001b[31mtortiectl:\u001b[39m");
  });

  it.each([
    [["cni", "add", "CONFLIST", "blue", "--mac", "xx"], "--mac"],
    [["cni", "add", "CONFLIST", "blue", "--timeout", "0"], "--timeout"],
    [["cni", "gc", "CONFLIST", "--valid", "cid"], "--valid"],
  ])("refuses %j, naming the option", async (argv, option) => {
    const conflist = join(process.cwd(), "test/support/empty-network.conf");

    const run = await tortiectl(argv.map((each) => (each === "CONFLIST" ? conflist : each)));

    expect(run.exit).toBe(2);
    expect(run.stderr).toContain(`tortiectl: ${option}`);
    expect(run.stderr).toContain("(option-invalid)");
  });

  it("nat remove takes away the table that an ADD made", async () => {
    await using node = await Node.create();
    await node.cni("ADD", { pod: await node.addPod(), conf: localConf(node) });
    const tables = async () => (await node.run(["/usr/sbin/nft", "list", "tables"])).stdout;
    expect(await tables()).toContain("tortie");

    const run = await node.run([join(BIN_DIR, "tortiectl"), "nat", "remove"]);

    expect(run).toMatchObject({ exit: 0, stderr: "", stdout: "tortie's nftables table is removed; the next ADD makes it again\n" });
    expect(await tables()).not.toContain("tortie");
  });

  it("routes remove takes away what an agent made for other nodes, and nothing else", async () => {
    await using node = await Node.create();
    await node.ip("route", "add", "blackhole", "10.9.1.0/26", "proto", "84", "metric", "2048");
    await node.ip("route", "add", "blackhole", "10.9.2.0/26", "proto", "static");

    const run = await node.run([join(BIN_DIR, "tortiectl"), "routes", "remove"]);

    expect(run).toMatchObject({ exit: 0, stderr: "", stdout: expect.stringContaining("route 10.9.1.0/26 to nowhere removed\n") });
    expect((await node.ip("-j", "route", "show")).map(({ dst }) => dst)).toEqual(["10.9.2.0/26"]);
  });

  it("W4: cni add gives seventeen namespaces a container id and a host interface each", async () => {
    await using node = await Node.create();
    const conflist = join(node.dir, "net.conflist");
    const { cniVersion, name, ...plugin } = localConf(node);
    writeFileSync(conflist, JSON.stringify({ cniVersion, name, plugins: [plugin] }));
    const pods = await Promise.all(Array.from({ length: 17 }, () => node.addPod()));

    const runs: RunResult[] = [];
    for (const { netnsPath } of pods) {
      runs.push(await node.run([join(BIN_DIR, "tortiectl"), "cni", "add", conflist, netnsPath, "--cache-dir", join(node.dir, "cache")]));
    }

    expect(runs.map(({ exit }) => exit)).toEqual(pods.map(() => 0));
    const hostEnds = (await node.ip("-j", "link", "show", "type", "veth")).map(({ ifname }) => ifname);
    expect(hostEnds).toHaveLength(pods.length);
    for (const hostEnd of hostEnds) expect(hostEnd).toMatch(/^cali[0-9a-f]{11}$/);
  });

  it("cni status shows a full pool beside the plugin that is ready, and fails with --strict alone", async () => {
    await using node = await Node.create();
    const conflist = join(node.dir, "net.conflist");
    const {
      cniVersion: _,
      name,
      ...plugin
    } = localConf(node, { ipam: { type: "tortie-ipam", pools: [{ cidr: "10.9.0.0/32", blockSize: 32 }] } });
    writeFileSync(conflist, JSON.stringify({ cniVersion: "1.1.0", name, plugins: [plugin] }));
    const cni = (verb: string, ...more: string[]) =>
      node.run([join(BIN_DIR, "tortiectl"), "cni", verb, conflist, ...more, "--cache-dir", join(node.dir, "cache")]);
    const roomy = await cni("status", "--strict");
    expect((await cni("add", (await node.addPod()).netnsPath)).exit).toBe(0);

    const full = await cni("status");

    expect(roomy).toMatchObject({ exit: 0, stdout: "  tortie  ready\n" });
    expect(full).toMatchObject({
      exit: 0,
      stdout: "  tortie  ready, but\n          IPv4: no address is left in 10.9.0.0/32\n",
      stderr: "",
    });
    expect((await cni("status", "--strict")).exit).toBe(1);
    expect(JSON.parse((await cni("status", "--json")).stdout)).toMatchObject({
      ready: true,
      plugins: [{ type: "tortie", findings: ["IPv4: no address is left in 10.9.0.0/32"] }],
    });
  });

  it("W3: an ordinary user hears that root is needed, whatever was refused", async () => {
    await using node = await Node.create();
    const conflist = join(node.dir, "net.conflist");
    const { cniVersion, name, ...plugin } = localConf(node);
    writeFileSync(conflist, JSON.stringify({ cniVersion, name, plugins: [plugin] }));
    const pod = await node.addPod();
    const cache = ["--cache-dir", join(node.dir, "cache")];
    const asRoot = await node.run([join(BIN_DIR, "tortiectl"), "cni", "add", conflist, pod.netnsPath, ...cache]);
    expect(asRoot.exit).toBe(0);
    // The list may be read by everybody; what root keeps for itself may not.
    chmodSync(node.dir, 0o755);
    chmodSync(join(node.dir, "cache"), 0o700);
    mkdirSync(join(node.dir, "agent"), { mode: 0o700 });
    // The project's folder may be closed to others.
    copyFileSync(join(BIN_DIR, "tortiectl"), join(node.dir, "tortiectl"));
    for (const program of ["tortie", "tortie-ipam"]) linkSync(join(node.dir, "tortiectl"), join(node.dir, program));
    const asNobody = (...argv: readonly string[]) =>
      node.run(["/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", join(node.dir, "tortiectl"), ...argv], {
        env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
        cwd: "/",
      });

    for (const argv of [
      ["cni", "add", conflist, pod.netnsPath, ...cache],
      ["cni", "del", conflist, pod.netnsPath, ...cache],
      ["node", "status", "--socket", join(node.dir, "agent", "api.sock")],
      ["nat", "remove"],
      ["ipam", "show", "--conf", conflist],
    ]) {
      const run = await asNobody(...argv);
      expect({ argv, exit: run.exit, text: run.stderr }).toEqual({ argv, exit: 1, text: expect.stringContaining("privilege-missing") });
      expect(run.stderr).toContain("run this as root");
      expect(run.stderr).not.toMatch(/remove that file|defect|typo/);
    }
  });

  it("completes namespaces in bash, and leaves files to it", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const name = pod.netnsPath.slice(pod.netnsPath.lastIndexOf("/") + 1);
    const script = `source <(tortiectl completion bash)
      typed() { COMP_WORDS=(tortiectl "$@"); COMP_CWORD=$#; COMPREPLY=(); _tortiectl; echo "\${#COMPREPLY[@]} \${COMPREPLY[*]}"; }
      typed cni add ""; typed cni add file ${name}; typed ipam rel; complete -p tortiectl`;

    const run = await node.run(["/bin/bash", "--norc", "--noprofile", "-c", script], { env: { PATH: `${BIN_DIR}:/usr/bin:/bin` } });

    expect(run).toMatchObject({
      exit: 0,
      stderr: "",
      stdout: `0 \n1 ${name}\n1 release\ncomplete -o bashdefault -o default -F _tortiectl tortiectl\n`,
    });
  });

  it("completes commands in fish, which offers files where there is nothing to say", async () => {
    await using node = await Node.create();
    const script = `tortiectl completion fish | source
      for line in "tortiectl ipam rel" "tortiectl datastore migrate --from " "tortiectl validate READ"; complete -C $line; end`;

    const run = await node.run(["/usr/bin/fish", "--no-config", "-c", script], {
      env: { PATH: `${BIN_DIR}:/usr/bin:/bin`, HOME: node.dir, XDG_DATA_HOME: node.dir },
      cwd: resolve("."),
    });

    expect(run).toMatchObject({ exit: 0, stderr: "", stdout: "release\netcdv3\nkubernetes\nlocal\nREADME.md\n" });
  });

  it("completes commands, values and files in zsh", async () => {
    await using node = await Node.create();
    // zsh completes in its line editor only: a shell on a terminal of its own gets the keys, and writes down what each line became.
    // The first of them is that of the empty line, with which it says that it takes keys.
    const rc = `PS1=; autoload -Uz compinit; compinit -u -D; source <(tortiectl completion zsh)
      note() { print -r -- "$BUFFER" >>lines; BUFFER= }; zle -N note; bindkey "^X" note; zle -N zle-line-init note`;
    const script = `zmodload zsh/zpty && zpty -b shell zsh -d -i
      await() { for ((look = 0; look < 500; look++)); do
        zpty -r -t shell output
        [[ "$(cat lines 2>/dev/null | wc -l)" -lt $1 ]] || break
        sleep 0.02
      done }
      await 1; count=1
      for line in "tortiectl ipam rel" "tortiectl datastore migrate --from e" "tortiectl validate READ"; do
        zpty -w -n shell "$line"$'\\t\\x18'
        await $((++count))
      done
      cat lines`;
    writeFileSync(join(node.dir, ".zshrc"), rc);
    writeFileSync(join(node.dir, "README.md"), "");

    const run = await node.run(["/usr/bin/zsh", "-f", "-c", script], {
      env: { PATH: `${BIN_DIR}:/usr/bin:/bin`, HOME: node.dir },
      cwd: node.dir,
    });

    const stdout = "\ntortiectl ipam release \ntortiectl datastore migrate --from etcdv3 \ntortiectl validate README.md \n";
    expect(run).toMatchObject({ exit: 0, stderr: "", stdout });
  });

  it("is a plugin of kubectl by its name, and then about the cluster that kubectl means", async () => {
    await using node = await Node.create();
    const plugin = (env: Readonly<Record<string, string>>) => node.run([join(BIN_DIR, "kubectl-tortie"), "ipam", "show"], { env });

    const run = await plugin({ HOME: node.dir });
    expect(run).toMatchObject({ exit: 1, stdout: "" });
    expect(run.stderr).toContain(join(node.dir, ".kube/config"));
    expect((await plugin({ HOME: node.dir, KUBECONFIG: "/another/config" })).stderr).toContain("/another/config");
  });

  it("nat remove succeeds where there is nothing to remove, and says so", async () => {
    expect(await tortiectl(["nat", "remove"])).toMatchObject({ exit: 0, stderr: "", stdout: "there was no nftables table of tortie's\n" });
    expect(JSON.parse((await tortiectl(["nat", "remove", "--json"])).stdout)).toEqual({ removed: false });
  });

  it.each([
    [["ipam", "show", "--kubeconfig", "/nope"], {}, 1, "kubeconfig /nope does not exist"],
    [
      ["ipam", "show", "--datastore", "etcdv3"],
      {},
      2,
      "which etcd? ETCD_ENDPOINTS is not set\n  next  set it, for instance ETCD_ENDPOINTS=",
    ],
    [
      ["ipam", "show", "--datastore", "etcdv3"],
      { ETCD_ENDPOINTS: "http://127.0.0.1:9" },
      1,
      "tortiectl: etcd http://127.0.0.1:9/v3/kv/range: dial tcp 127.0.0.1 port 9: connect: connection refused",
    ],
  ])("%j names what the command line leads to, with %j", async (argv, env, exit, message) => {
    const run = await tortiectl(argv, env);

    expect(run).toMatchObject({ exit, stdout: "" });
    expect(run.stderr).toContain(message);
  });

  it("says of a list that is no JSON where to look, not which key is wrong", async () => {
    await using node = await Node.create();
    const file = join(node.dir, "broken.conflist");
    writeFileSync(file, '{ "cniVersion": "1.0.0"\n  "name": "pods" }');

    const run = await node.run([join(BIN_DIR, "tortiectl"), "cni", "status", file]);

    expect(run).toMatchObject({ exit: 1, stdout: "" });
    expect(run.stderr).toMatch(/\(line 2, column 3\)\n {2}next {2}correct the text just before that place/);
  });
});
