/** What the restless world relies on: process ids that come again, and clocks of a node's own. */
import { statSync } from "node:fs";
import { Node } from "../../support/node.ts";
import { shifted } from "../../support/restless/clocks.ts";
import { ProcessIds } from "../../support/restless/process-ids.ts";

const inode = (path: string) => statSync(path).ino;

describe("A process id", () => {
  it("names a sandbox until the process ends, and then that of the next process with this id", async () => {
    await using node = await Node.create();
    await using ids = await ProcessIds.create(node.dir);
    const [first, other] = [await ids.start(), await ids.start()];
    const { netnsPath } = first;
    const seen = inode(netnsPath);
    expect(new Set([seen, inode(other.netnsPath), inode(node.netnsPath), inode("/proc/self/ns/net")]).size).toBe(4);

    await ids.end(first);
    expect(() => statSync(netnsPath)).toThrow(/ENOENT/);
    const again = await ids.start(first);
    expect(again.netnsPath).toBe(netnsPath);
    expect(inode(netnsPath)).not.toBe(inode(node.netnsPath));

    await ids.end(again);
    await ids.start(first, node.netnsPath);
    expect(inode(netnsPath)).toBe(inode(node.netnsPath));
  });
});

describe("A node's clocks", () => {
  it("are ahead or behind by what they are shifted, for what is started so, and for nothing else", async () => {
    await using node = await Node.create();
    const [HOUR, DAY] = [3_600, 86_400];
    const read = async (...before: readonly string[]) => {
      const { stdout } = await node.run([...before, "/bin/sh", "-c", "/bin/date +%s; /bin/cat /proc/uptime"]);
      const [ofDay = 0, sinceBoot = 0] = stdout.split(/\s/).map(Number);
      return { ofDay, sinceBoot };
    };
    const before = await read();
    const changed = await read(...shifted(node.dir, { ofDay: -DAY, sinceBoot: HOUR }));
    const after = await read();
    expect(changed.ofDay).toBeGreaterThanOrEqual(before.ofDay - DAY);
    expect(changed.ofDay).toBeLessThanOrEqual(after.ofDay - DAY);
    expect(changed.sinceBoot).toBeGreaterThanOrEqual(before.sinceBoot + HOUR);
    expect(changed.sinceBoot).toBeLessThanOrEqual(after.sinceBoot + HOUR);
  });
});
