/** Many deletions of links in one process, while somebody else deletes the same ones first. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Node } from "../support/node.ts";

const LINKS = 150;
/** As many as the C library has for writes in the background (aio_init(3)). */
const THREADS = 20;

/**
 * Deletes every interface when all threads are busy, so that no request has been sent when somebody else's deletion ends the removal. Then files are
 * opened, which have the numbers that the sockets had, and the threads get free.
 */
function deleter(directory: string): string {
  return `
    import { closeSync, openSync, readSync, readdirSync, readFileSync, writeSync } from "node:fs";
    import { LinuxDataplane } from "${process.cwd()}/dataplane/linux/linux-dataplane.ts";
    import { HostSockets } from "${process.cwd()}/dataplane/netlink/host-sockets.ts";
    import { startWrite } from "${process.cwd()}/lib/system/background-write.ts";
    const run = async (argv, stdin) => { const child = Bun.spawn(argv, { stdin: new Blob([stdin ?? ""]), stdout: "ignore" }); await child.exited; };
    const dataplane = new LinuxDataplane(new HostSockets());

    const link = (name) => ({ podInterface: "eth0", hostInterface: name, owner: { network: "n", containerId: "c", ifname: name } });
    const open = () => readdirSync("/proc/self/fd").length;
    const paths = Array.from({ length: ${THREADS} }, (_, index) => "${directory}/pipe" + index);
    await run(["/usr/bin/mkfifo", ...paths]);
    const pipes = paths.map((path) => openSync(path, "r+"));
    // What is opened when it is first needed, and stays.
    await dataplane.remove(link("d${LINKS}"));
    const before = open();
    for (const pipe of pipes) {
      writeSync(pipe, new Uint8Array(65536));
      startWrite(pipe, new Uint8Array(1));
    }

    const names = Array.from({ length: ${LINKS} }, (_, index) => "d" + index);
    const removals = names.flatMap((name) => [dataplane.remove(link(name)), dataplane.remove(link(name))]);
    const others = run(["/usr/sbin/ip", "-batch", "-"], names.map((name) => "link del " + name).join("\\n"));
    const failures = (await Promise.allSettled(removals)).flatMap((one) => (one.status === "rejected" ? [String(one.reason)] : []));
    await others;
    const files = Array.from({ length: ${4 * LINKS} }, (_, index) => openSync("${directory}/file" + index, "a+"));
    for (const pipe of pipes) {
      for (let left = 65537; left > 0; ) left -= readSync(pipe, new Uint8Array(left));
    }
    for (let tries = 0; open() > before + files.length && tries < 200; tries++) await Bun.sleep(50);
    const leaked = open() - before - files.length;
    files.forEach(closeSync);
    const written = readdirSync("${directory}").filter((name) => name.startsWith("file") && readFileSync("${directory}/" + name).length > 0);
    console.log(JSON.stringify({ failures, written: written.length, leaked }));
    process.exit(0);`;
}

describe("Links that somebody else deletes first", () => {
  it("M3: are gone, and no request for them goes to a descriptor that is anything else by then", async () => {
    await using node = await Node.create();
    const added = (index: number) => `link add d${index} type veth peer name p${index}\nlink set d${index} alias tortie:n/c/d${index}`;
    const batch = Array.from({ length: LINKS + 1 }, (_, index) => added(index)).join("\n");
    const before = await node.ip("-j", "link", "show");
    expect(await node.run(["/usr/sbin/ip", "-batch", "-"], { stdin: batch })).toMatchObject({ exit: 0 });

    const trace = join(node.dir, "trace");
    const strace = ["/usr/bin/strace", "-f", "--seccomp-bpf", "-qq", "-yy", "-o", trace, "-e", "trace=pwrite64,write"];
    const run = await node.run([...strace, process.execPath, "-e", deleter(node.dir)]);

    expect({ ...run, stdout: JSON.parse(run.stdout || "null") }).toMatchObject({
      exit: 0,
      stdout: { failures: [], written: 0, leaked: 0 },
    });
    expect(await node.ip("-j", "link", "show")).toHaveLength(before.length);
    // struct nlmsghdr of 32 bytes, type RTM_DELLINK, as strace prints it. The C library tries pwrite(2) first.
    const writes = readFileSync(trace, "utf8")
      .split("\n")
      .filter((line) => line.includes(String.raw`" \0\0\0\21\0\5\0`));
    expect(writes.length).toBeGreaterThanOrEqual(2 * LINKS);
    expect(writes.filter((line) => !/write(64)?\(\d+<NETLINK:/.test(line))).toEqual([]);
  });
});
