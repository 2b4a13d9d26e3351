/** SIGTERM while an ADD waits for somebody else: it takes back what it has made, writes its log and ends (M4, design invariant 5). */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { holdLock } from "../../support/lock-holder-process.ts";
import { BIN_DIR, Node, type Pod, type RunResult } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

/** Longer than any test. */
const LONG_SECONDS = 600;
const ENV = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", CNI_CONTAINERID: "c1", CNI_IFNAME: "eth0" };
/** A signal that comes before the program has begun its work would just end it: it is sent when a file says how far the work is. */
const TERMINATED = `exec 3<&0
"$1" <&3 &
until grep -qs "$3" "$2"; do sleep 0.05; kill -0 $! || break; done
kill -TERM $!
wait $!`;

/** An operation that gets SIGTERM as soon as this file has this text. */
function terminated(node: Node, env: Readonly<Record<string, string>>, conf: object, file: string, text: string): Promise<RunResult> {
  const plugin = join(BIN_DIR, "tortie");
  return node.run(["/bin/sh", "-c", TERMINATED, "sh", plugin, file, text], { env: { ...ENV, ...env }, stdin: JSON.stringify(conf) });
}

function addTo(pod: Pod, path = BIN_DIR) {
  return { CNI_COMMAND: "ADD", CNI_NETNS: pod.netnsPath, CNI_PATH: path };
}

async function expectInterrupted(node: Node, pod: Pod, run: RunResult): Promise<void> {
  expect([run.exit, JSON.parse(run.stdout)]).toEqual([
    143,
    { code: 11, msg: "ADD was interrupted by SIGTERM", details: expect.stringMatching(/^operation-interrupted: /) },
  ]);
  expect(run.stderr).toContain("asked to end");
  expect(run.stderr).toContain("ADD failed");
  await node.expectClean();
  expect(await node.podIp(pod, "-j", "link", "show")).toHaveLength(1);
}

const node = fresh(Node.create);

describe("M4: an ADD that gets SIGTERM", () => {
  it("while it waits for the node's lock has taken nothing", async () => {
    const pod = await node.addPod();
    const conf = localConf(node, { log_file_path: join(node.dir, "cni.log") });
    expect(await node.cni("ADD", { containerId: "other", pod: await node.addPod(), conf })).toMatchObject({ exit: 0 });
    const before = await readStore(node);
    const log = String(conf.log_file_path);
    using _holder = await holdLock(String(conf.ipam_lock_file), LONG_SECONDS);

    const run = await terminated(node, addTo(pod), conf, log, "waiting for");

    expect(run.stderr).toContain("waiting for");
    expect(run.exit).toBe(143);
    expect((await node.leftovers()).links).toEqual(["caliother"]);
    expect(await readStore(node)).toEqual(before);
  });

  it("while its IPAM plugin takes its time gives back what that had taken", async () => {
    const pod = await node.addPod();
    const conf = localConf(node, { ipam: { type: "slow-ipam", pools: [{ cidr: "10.244.0.0/16" }] } });
    const slow = `#!/bin/sh
taken=$(${join(BIN_DIR, "tortie-ipam")}) || exit 1
[ "$CNI_COMMAND" = ADD ] && echo taken >"${join(node.dir, "progress")}" && /bin/sleep 30
echo "$taken"
`;
    writeFileSync(join(node.dir, "slow-ipam"), slow, { mode: 0o755 });

    const run = await terminated(node, addTo(pod, node.dir), conf, join(node.dir, "progress"), "taken");

    await expectInterrupted(node, pod, run);
    expect(await readStore(node)).toMatchObject({ allocated: [], handles: [], endpoints: [] });
  });

  it("and any other operation ends at once, with its log written", async () => {
    const conf = localConf(node, { log_file_path: join(node.dir, "cni.log") });
    expect(await node.cni("ADD", { containerId: "c1", pod: await node.addPod(), conf })).toMatchObject({ exit: 0 });
    const log = String(conf.log_file_path);
    using holder = await holdLock(String(conf.ipam_lock_file), LONG_SECONDS);
    const env = { CNI_COMMAND: "DEL", CNI_NETNS: "", CNI_PATH: BIN_DIR };

    const run = await terminated(node, env, conf, log, "waiting for.*command=DEL");

    expect(run).toMatchObject({ exit: 143, stdout: "" });
    expect(await Bun.file(log).text()).toMatch(/SIGTERM.*command=DEL/);
    holder.kill();
    expect(await node.cni("DEL", { containerId: "c1", netns: "", conf })).toMatchObject({ exit: 0 });
    expect(await readStore(node)).toMatchObject({ allocated: [], handles: [], endpoints: [] });
  });
});
