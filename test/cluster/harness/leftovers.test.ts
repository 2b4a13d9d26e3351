/** Nothing of a cluster stays: neither when it is disposed of, nor when the process that started it is killed. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { basename, resolve } from "node:path";
import { createInterface } from "node:readline";
import { commandLines } from "../../support/kubernetes/process.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

/** Names of the programs whose command line mentions `text`, this one not. */
function programsWith(text: string): string[] {
  const found = commandLines().filter(([, ...args]) => args.some((arg) => arg.includes(text)));
  return found.map(([program = ""]) => basename(program)).toSorted();
}

describe("a cluster's processes and files", () => {
  it("are gone when it is disposed of, also when its server was stopped or frozen", async () => {
    for (const harm of ["none", "frozen", "stopped"]) {
      const cluster = await startCluster({ own: true });
      const { dir } = cluster;
      expect(programsWith(dir)).toEqual(["etcd", "kube-apiserver"]);
      if (harm === "frozen") cluster.freeze();
      if (harm === "stopped") await cluster.stopApiServer();
      await cluster[Symbol.asyncDispose]();
      expect(programsWith(dir)).toEqual([]);
      expect(existsSync(dir)).toBe(false);
    }
  });

  it("are gone when the process that started it is killed", async () => {
    const program = resolve("test/support/kubernetes/programs/hold-cluster.ts");
    const holder = spawn(resolve("node_modules/bun/bin/bun.exe"), [program], { stdio: ["ignore", "pipe", "inherit"] });
    const exit = once(holder, "exit");
    const [dir] = await once(createInterface(holder.stdout), "line");
    expect(programsWith(dir)).toEqual(["etcd", "kube-apiserver"]);
    holder.kill("SIGKILL");
    await exit;
    const deadline = Date.now() + 10_000;
    while (programsWith(dir).length > 0 && Date.now() < deadline) await new Promise((done) => setTimeout(done, 20));
    expect(programsWith(dir)).toEqual([]);
  });

  it("belong to nobody else: an attached cluster that is disposed of goes on", async () => {
    const first = await startCluster();
    await first[Symbol.asyncDispose]();
    await using second = await startCluster();
    expect(second.dir).toBe(first.dir);
    expect((await second.api("GET", "/readyz")).status).toBe(200);
  });
});
