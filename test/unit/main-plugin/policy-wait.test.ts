import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { awaitPolicy, endpointStatusFile } from "../../../main-plugin/gates.ts";
import { fresh, TemporaryDirectory } from "../../support/fixtures.ts";

const ENDPOINT = { namespace: "rec", name: "node1-k8s-pod1-eth0" };
const FILE = "k8s rec%2Fpod1 eth0";

const root = fresh(() => new TemporaryDirectory());

/** What a wait comes to and how long it takes, while `happen` goes on. */
async function waitFor(directory: string, timeoutMs: number, happen: () => Promise<void> = async () => {}, lookEveryMs = 500) {
  const started = performance.now();
  const [warning] = await Promise.all([awaitPolicy({ endpoint: ENDPOINT, directory, timeoutMs, lookEveryMs }), happen()]);
  return { warning, took: performance.now() - started };
}

describe("the name of an endpoint's status file", () => {
  // The vectors of C§2.8 and C§11.5.
  it.each([
    ["node1-k8s-mypod-eth0", "default", "k8s default%2Fmypod eth0"],
    ["node--1-k8s-my--pod-eth0", "default", "k8s default%2Fmy-pod eth0"],
    ["node1-cni-abc123-eth0", "default", "cni default%2Fabc123 eth0"],
    ["node1-k8s-testpod1-eth0", "a b/c", "k8s a%20b%2Fc%2Ftestpod1 eth0"],
    ["node1-k8s-po/d 1-eth/0 1", "default", "k8s default%2Fpo%2Fd%201 eth%2F0%201"],
    ["node1-k8s-a$&+:=@~_.b-eth0", "default", "k8s default%2Fa$&+:=@~_.b eth0"],
    ["node1-k8s-a!*'(),;?é-eth0", "default", "k8s default%2Fa%21%2A%27%28%29%2C%3B%3F%C3%A9 eth0"],
  ])("of %s in %j is %j", (name, namespace, expected) => {
    expect(endpointStatusFile({ name, namespace })).toBe(expected);
  });

  it.each(["node1-k8s-pod1", "a-b-c-d-e"])("does not exist for %s, and nobody waits for it", async (name) => {
    const endpoint = { name, namespace: "default" };
    expect(endpointStatusFile(endpoint)).toBeUndefined();
    expect(await awaitPolicy({ endpoint, directory: root.path, timeoutMs: 60_000 })).toMatch(/^policy of default\/.* cannot be waited for/);
  });
});

describe("the wait for policy", () => {
  it("is over at once when the file is there (recording policy-status-file)", async () => {
    writeFileSync(join(root.path, FILE), "{}");
    const { warning, took } = await waitFor(root.path, 60_000);
    expect(warning).toBeUndefined();
    expect(took).toBeLessThan(30_000);
  });

  it.each([
    ["written", (path: string) => writeFileSync(path, "{}")],
    [
      "moved there",
      (path: string) => {
        writeFileSync(join(root.path, "new"), "{}");
        renameSync(join(root.path, "new"), path);
      },
    ],
  ])("is over as soon as the file is %s, without looking again and again", async (_, make) => {
    const happen = async () => {
      await Bun.sleep(50);
      make(join(root.path, FILE));
    };
    const { warning, took } = await waitFor(root.path, 60_000, happen, 60_000);
    expect(warning).toBeUndefined();
    expect(took).toBeLessThan(30_000);
  });

  it("does not take another endpoint's file for its own", async () => {
    const { warning, took } = await waitFor(root.path, 300, async () => {
      await Bun.sleep(50);
      writeFileSync(join(root.path, "k8s rec%2Fpod10 eth0"), "{}");
    });
    expect(warning).toContain("is not in place after 0.3 s");
    expect(took).toBeGreaterThanOrEqual(290);
  });

  it("bears with a directory that comes later, or goes and comes again", async () => {
    const directory = join(root.path, "endpoint-status");
    const later = await waitFor(directory, 60_000, async () => {
      await Bun.sleep(50);
      mkdirSync(directory);
      await Bun.sleep(700);
      writeFileSync(join(directory, FILE), "{}");
    });
    rmSync(directory, { recursive: true });
    mkdirSync(directory);
    const again = await waitFor(directory, 60_000, async () => {
      await Bun.sleep(50);
      rmSync(directory, { recursive: true });
      await Bun.sleep(50);
      mkdirSync(directory);
      writeFileSync(join(directory, FILE), "{}");
    });
    expect([later.warning, again.warning]).toEqual([undefined, undefined]);
  });

  it.each(["", "nowhere"])(
    "ends in a warning that names endpoint and file when the time is over (recording policy-timeout-1)",
    async (below) => {
      const directory = join(root.path, below);
      const { warning, took } = await waitFor(directory, 1_000);
      expect(warning).toBe(`policy of rec/node1-k8s-pod1-eth0 is not in place after 1 s: no file ${join(directory, FILE)}`);
      expect(took).toBeGreaterThanOrEqual(990);
    },
  );
});
