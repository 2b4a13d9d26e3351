/** SIGTERM while an ADD waits for somebody else: it takes back what it has made, writes its log and ends (M4, design invariant 5). */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { localConf } from "../../support/conf.ts";
import { BIN_DIR, Node, type Pod, type RunResult } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

/** An ADD that gets SIGTERM after a second. */
function terminatedAdd(node: Node, pod: Pod, conf: object, path = BIN_DIR): Promise<RunResult> {
  const env = {
    PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
    CNI_COMMAND: "ADD",
    CNI_CONTAINERID: "c1",
    CNI_NETNS: pod.netnsPath,
    CNI_IFNAME: "eth0",
    CNI_PATH: path,
  };
  return node.run(["/usr/bin/timeout", "--preserve-status", "-s", "TERM", "1", join(BIN_DIR, "tortie")], {
    env,
    stdin: JSON.stringify(conf),
  });
}

async function expectInterrupted(node: Node, pod: Pod, run: RunResult): Promise<void> {
  expect([run.exit, JSON.parse(run.stdout)]).toEqual([
    143,
    { code: 11, msg: "ADD was interrupted by SIGTERM", details: expect.stringMatching(/^operation-interrupted: /) },
  ]);
  expect(run.stderr).toContain("asked to end");
  expect(run.stderr).toContain("ADD failed");
  expect(await node.leftovers()).toEqual({ links: [], routes: [] });
  expect(await node.podIp(pod, "-j", "link", "show")).toHaveLength(1);
}

describe("M4: an ADD that gets SIGTERM", () => {
  it("while it waits for the node's lock has taken nothing", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const conf = localConf(node);
    expect(await node.cni("ADD", { containerId: "other", pod: await node.addPod(), conf })).toMatchObject({ exit: 0 });
    const before = await readStore(node);
    const held = node.run(["/usr/bin/flock", String(conf.ipam_lock_file), "/bin/sleep", "4"]);
    await node.run(["/bin/sleep", "0.3"]);

    const run = await terminatedAdd(node, pod, conf);

    expect(run.stderr).toContain("waiting for");
    expect(run.exit).toBe(143);
    expect((await node.leftovers()).links).toEqual(["caliother"]);
    expect(await readStore(node)).toEqual(before);
    await held;
  });

  it("while its IPAM plugin takes its time gives back what that had taken", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const conf = localConf(node, { ipam: { type: "slow-ipam", pools: [{ cidr: "10.244.0.0/16" }] } });
    const slow = `#!/bin/sh
taken=$(${join(BIN_DIR, "tortie-ipam")}) || exit 1
[ "$CNI_COMMAND" = ADD ] && /bin/sleep 30
echo "$taken"
`;
    writeFileSync(join(node.dir, "slow-ipam"), slow, { mode: 0o755 });

    const run = await terminatedAdd(node, pod, conf, node.dir);

    await expectInterrupted(node, pod, run);
    expect(await readStore(node)).toMatchObject({ allocated: [], handles: [], endpoints: [] });
  });

  it("and any other operation ends at once, with its log written", async () => {
    await using node = await Node.create();
    const conf = localConf(node, { log_file_path: join(node.dir, "cni.log") });
    expect(await node.cni("ADD", { containerId: "c1", pod: await node.addPod(), conf })).toMatchObject({ exit: 0 });
    const held = node.run(["/usr/bin/flock", String(conf.ipam_lock_file), "/bin/sleep", "4"]);
    await node.run(["/bin/sleep", "0.3"]);
    const env = { CNI_COMMAND: "DEL", CNI_CONTAINERID: "c1", CNI_NETNS: "", CNI_IFNAME: "eth0", CNI_PATH: BIN_DIR };

    const run = await node.run(["/usr/bin/timeout", "--preserve-status", "-s", "TERM", "1", join(BIN_DIR, "tortie")], {
      env,
      stdin: JSON.stringify(conf),
    });

    expect(run).toMatchObject({ exit: 143, stdout: "" });
    expect(await Bun.file(join(node.dir, "cni.log")).text()).toMatch(/SIGTERM.*command=DEL/);
    await held;
    expect(await node.cni("DEL", { containerId: "c1", netns: "", conf })).toMatchObject({ exit: 0 });
    expect(await readStore(node)).toMatchObject({ allocated: [], handles: [], endpoints: [] });
  });
});
