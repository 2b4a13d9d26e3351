import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Node } from "../../support/node.ts";

describe("a test's pretend machine", () => {
  it("runs commands inside its own namespace, with only the environment it was given", async () => {
    await using node = await Node.create();
    await node.ip("link", "add", "here0", "type", "veth", "peer", "name", "here1");

    const result = await node.run(["/bin/sh", "-c", "/usr/bin/env; /usr/sbin/ip -br link"], { env: { ONLY: "this" } });

    expect(result).toMatchObject({ exit: 0, signal: null, stderr: "" });
    expect(result.stdout).toMatch(/^ONLY=this$/m);
    expect(result.stdout).toMatch(/^here0@here1/m);
    expect(result.stdout).not.toMatch(/^HOME=/m);
    expect((await node.leftovers()).links.sort()).toEqual(["here0", "here1"]);
  });

  it("puts directories where a command expects them, for that command alone", async () => {
    await using node = await Node.create();
    writeFileSync(join(node.dir, "nodename"), "node1");

    const result = await node.run(["/bin/cat", "/var/lib/calico/nodename"], { env: {}, binds: { "/var/lib/calico": node.dir } });

    expect(result).toMatchObject({ exit: 0, stdout: "node1" });
    expect(existsSync("/var/lib/calico/nodename")).toBe(false);
  });

  it("calls a plugin with nothing but CNI variables and parses what it prints", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const script = `printf '{"netns":"%s","ifname":"%s","conf":' "$CNI_NETNS" "$CNI_IFNAME"; /bin/cat; printf '}'`;
    const plugin = join(node.dir, "plugin");
    writeFileSync(plugin, `#!/bin/sh\n${script}\n`, { mode: 0o755 });

    const run = await node.cni("ADD", { plugin, pod, conf: { name: "net1" } });

    expect(run).toMatchObject({ exit: 0, json: { netns: pod.netnsPath, ifname: "eth0", conf: { name: "net1" } } });
  });

  it("ends a command that takes too long", async () => {
    await using node = await Node.create();
    expect(await node.run(["/bin/sleep", "30"], { timeoutMs: 200 })).toMatchObject({ exit: null, signal: "SIGKILL" });
  });

  it("leaves no namespace and no directory behind", async () => {
    const node = await Node.create();
    const pod = await node.addPod();
    await node.run(["/bin/sh", "-c", "/bin/sleep 100 >/dev/null 2>&1 </dev/null &"], {}, pod);
    await node[Symbol.asyncDispose]();

    expect(readdirSync("/run/netns").filter((name) => name.startsWith(node.name))).toEqual([]);
    expect(existsSync(node.dir)).toBe(false);
  });
});
