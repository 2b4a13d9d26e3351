/**
 * A plugin that is killed at any moment: the DEL, the GC or the next ADD of that attachment undoes what it left (design, invariant 5).
 * strace kills the whole process at the n-th call of one system call; n runs until the plugin ends by itself.
 */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { dualIpam, localConf } from "../support/conf.ts";
import { type CniRun, Node, type Pod } from "../support/node.ts";
import { readStore } from "../support/store.ts";
import { injecting } from "../support/strace.ts";

jest.setTimeout(600_000);

/** The calls that change something outside the process: netlink messages, files of the datastore and below /proc/sys. */
const CALLS = ["sendmsg,sendto", "pwrite64", "write", "setns"] as const;
/** No operation of the plugin comes near this many of them. */
const MANY = 400;

type Recovery = "DEL" | "GC" | "ADD";
const RECOVERIES: readonly Recovery[] = ["DEL", "GC", "ADD"];

interface Scene {
  readonly node: Node;
  readonly pod: Pod;
  readonly conf: Record<string, unknown>;
}

async function scene(): Promise<Scene> {
  const node = await Node.create();
  const conf = localConf(node, { cniVersion: "1.1.0", ipam: dualIpam("46") });
  return { node, pod: await node.addPod(), conf };
}

/** Runs one operation under strace. @returns whether it was killed */
async function runKilled({ node, pod, conf }: Scene, command: string, call: string, when: number): Promise<boolean> {
  const env = { CNI_COMMAND: command, CNI_CONTAINERID: "cid1", CNI_IFNAME: "eth0", CNI_NETNS: pod.netnsPath, CNI_PATH: node.binDir };
  const strace = injecting(call, `signal=SIGKILL:when=${when}`);
  const run = await node.run([...strace, `${node.binDir}/tortie`], { env, stdin: JSON.stringify(conf) });
  // strace ends itself by the signal that ended its child.
  if (run.signal === "SIGKILL") return true;
  expect({ call, when, exit: run.exit, stdout: run.exit === 0 ? "" : run.stdout }).toEqual({ call, when, exit: 0, stdout: "" });
  return false;
}

async function recover({ node, pod, conf }: Scene, recovery: Recovery): Promise<CniRun[]> {
  switch (recovery) {
    case "DEL":
      return [await node.cni("DEL", { pod, conf })];
    case "GC":
      return [await node.cni("GC", { conf: { ...conf, "cni.dev/valid-attachments": [] } })];
    case "ADD": {
      const added = await node.cni("ADD", { pod, conf });
      // Not the addresses of the killed ADD besides its own.
      expect((await readStore(node)).allocated).toHaveLength(2);
      return [added, await node.cni("DEL", { pod, conf })];
    }
  }
}

async function expectNothingLeft({ node }: Scene, story: Record<string, unknown>): Promise<void> {
  const { allocated, handles, endpoints } = await readStore(node);
  expect({ ...story, ...(await node.leftovers()), allocated, handles, endpoints }).toEqual({
    ...story,
    links: [],
    routes: [],
    allocated: [],
    handles: [],
    endpoints: [],
  });
}

describe.each(CALLS)("Killed at every %s", (call) => {
  it("an ADD leaves nothing after its DEL, its GC or its next ADD", async () => {
    let kills = 0;
    for (let when = 1; when < MANY; when++) {
      const stage = await scene();
      await using _ = stage.node;
      if (!(await runKilled(stage, "ADD", call, when))) break;
      kills++;
      const recovery = RECOVERIES[when % RECOVERIES.length] ?? "DEL";
      const runs = await recover(stage, recovery);
      expect({ call, when, recovery, failures: runs.filter(({ exit }) => exit !== 0).map(({ stdout }) => stdout) }).toMatchObject({
        failures: [],
      });
      await expectNothingLeft(stage, { call, when, recovery });
    }
    expect(kills).toBeGreaterThan(0);
    expect(kills).toBeLessThan(MANY - 1);
  });

  it("a DEL leaves nothing after it is repeated, and frees no address before its link is gone", async () => {
    let kills = 0;
    for (let when = 1; when < MANY; when++) {
      const stage = await scene();
      await using _ = stage.node;
      expect(await stage.node.cni("ADD", { pod: stage.pod, conf: stage.conf })).toMatchObject({ exit: 0 });
      if (!(await runKilled(stage, "DEL", call, when))) break;
      kills++;
      const { links } = await stage.node.leftovers();
      const { allocated } = await readStore(stage.node);
      if (links.length > 0) expect({ call, when, allocated: allocated.length }).toEqual({ call, when, allocated: 2 });
      expect(await stage.node.cni("DEL", { pod: stage.pod, conf: stage.conf })).toMatchObject({ exit: 0, stdout: "" });
      await expectNothingLeft(stage, { call, when });
    }
    expect(kills).toBeLessThan(MANY - 1);
  });
});

describe("Killed while another IPAM plugin looks for addresses", () => {
  /** An IPAM plugin whose first ADD ends its caller's life, and after that its own. */
  function deadlyIpam(node: Node): string {
    const [path, died] = [join(node.dir, "plugins"), join(node.dir, "died")];
    const answer = '{"cniVersion":"1.0.0","ips":[{"address":"10.80.0.5/24"}]}';
    mkdirSync(path);
    writeFileSync(
      join(path, "deadly"),
      `#!/bin/sh
cat > /dev/null
[ "$CNI_COMMAND" = ADD ] || exit 0
[ -e ${died} ] && { echo '${answer}'; exit 0; }
: > ${died}
/bin/sleep 0.3
kill -9 $PPID
`,
    );
    chmodSync(join(path, "deadly"), 0o755);
    return path;
  }

  it.each(RECOVERIES)("an ADD leaves nothing after a %s", async (recovery) => {
    await using node = await Node.create();
    const conf = localConf(node, { cniVersion: "1.1.0", ipam: { type: "deadly" } });
    const call = { pod: await node.addPod(), conf, path: deadlyIpam(node) };

    expect(await node.cni("ADD", call)).toMatchObject({ signal: "SIGKILL", stdout: "" });

    if (recovery === "GC") {
      expect(await node.cni("GC", { ...call, conf: { ...conf, "cni.dev/valid-attachments": [] } })).toMatchObject({ exit: 0 });
    } else {
      if (recovery === "ADD") expect(await node.cni("ADD", call)).toMatchObject({ exit: 0 });
      expect(await node.cni("DEL", call)).toMatchObject({ exit: 0, stdout: "" });
    }
    const { endpoints } = await readStore(node);
    expect({ ...(await node.leftovers()), endpoints, pod: await node.podIp(call.pod, "-j", "link", "show") }).toMatchObject({
      links: [],
      routes: [],
      endpoints: [],
      pod: [{ ifname: "lo" }],
    });
  });
});
