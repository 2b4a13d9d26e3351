import { readdirSync, readlinkSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TortieError } from "../../../../lib/errors/errors.ts";
import { inNamespace, isOwnNamespace, openNamespace, verifyNamespacePath } from "../../../../lib/system/netns.ts";
import { fresh } from "../../../support/fixtures.ts";
import { Node } from "../../../support/node.ts";

const home = () => readlinkSync("/proc/thread-self/ns/net");

const node = fresh(Node.create);

/** A program whose way back is closed: it takes away the descriptor that leads home, which only these tests do. */
function withoutWayBack(): string {
  return `
    import { closeSync, readdirSync, readlinkSync } from "node:fs";
    import { inNamespace, openNamespace } from "${process.cwd()}/lib/system/netns.ts";
    const namespace = openNamespace(${JSON.stringify(node.netnsPath)});
    try {
      inNamespace(namespace, () => {
        for (const fd of readdirSync("/proc/self/fd")) {
          let target = "";
          try { target = readlinkSync("/proc/self/fd/" + fd); } catch {}
          if (target.startsWith("net:") && Number(fd) !== namespace.fd) closeSync(Number(fd));
        }
      });
    } finally { console.log("went on"); }`;
}

describe("looking at a namespace path", () => {
  it("accepts a bound namespace and one below /proc, and knows which is our own", async () => {
    expect(() => verifyNamespacePath(node.netnsPath)).not.toThrow();
    expect(() => verifyNamespacePath("/proc/self/ns/net")).not.toThrow();
    expect(isOwnNamespace(node.netnsPath)).toBe(false);
    expect(isOwnNamespace("/proc/self/ns/net")).toBe(true);
    expect(isOwnNamespace("/run/netns/absent")).toBe(false);
  });

  it("tells a missing path from something that is no namespace, in Calico's words", async () => {
    const file = join(node.dir, "file");
    writeFileSync(file, "x");
    const magic = Bun.spawnSync(["/usr/bin/stat", "-f", "-c", "%t", file]).stdout.toString().trim();

    expect(() => verifyNamespacePath("/run/netns/absent")).toThrow(
      expect.objectContaining({ word: "netns-missing", message: 'failed to Statfs "/run/netns/absent": no such file or directory' }),
    );
    expect(() => verifyNamespacePath(file)).toThrow(
      expect.objectContaining({ word: "netns-invalid", message: `unknown FS magic on "${file}": ${magic}` }),
    );
  });
});

describe("working inside a namespace", () => {
  it("sees that namespace's links, and is back afterwards", async () => {
    await node.ip("link", "add", "inside0", "type", "veth", "peer", "name", "inside1");
    const before = home();
    using namespace = openNamespace(node.netnsPath);

    const [name, links] = inNamespace(namespace, () => [home(), readdirSync("/proc/sys/net/ipv4/conf")] as const);

    expect(name).toBe(`net:[${statSync(node.netnsPath).ino}]`);
    expect(links).toContain("inside0");
    expect(home()).toBe(before);
    expect(readdirSync("/proc/sys/net/ipv4/conf")).not.toContain("inside0");
  });

  it("comes back when the work throws", async () => {
    const before = home();
    using namespace = openNamespace(node.netnsPath);
    expect(() =>
      inNamespace(namespace, () => {
        throw new Error("work failed");
      }),
    ).toThrow("work failed");
    expect(home()).toBe(before);
  });

  it("names a namespace of another kind that cannot be entered", () => {
    using namespace = openNamespace("/proc/self/ns/uts");
    const enter = () => inNamespace(namespace, () => 1);
    expect(enter).toThrow(TortieError);
    expect(enter).toThrow(
      expect.objectContaining({ word: "netns-invalid", message: expect.stringMatching(/^failed to enter netns: .*ns\/uts/) }),
    );
  });

  it("aborts the process rather than going on in the wrong namespace", async () => {
    const result = await node.run([process.execPath, "-e", withoutWayBack()]);
    expect(result.signal ?? result.exit).not.toBe(0);
    expect(result.stdout).not.toContain("went on");
    expect(result.stderr).toContain("aborting");
  });

  it("seven:5: aborts the process when nobody reads its standard error", async () => {
    const result = await node.run(["/bin/bash", "-c", 'exec 2> >(:); wait $!; exec "$0" -e "$1"', process.execPath, withoutWayBack()]);
    expect(result.signal ?? result.exit).not.toBe(0);
    expect(result.stdout).not.toContain("went on");
  });
});
