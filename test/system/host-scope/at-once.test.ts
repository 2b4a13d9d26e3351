/** Many processes take addresses of one node at the same time, on a real file system. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { hostScopeFiles } from "../../../ipam-plugin/host-scope/files.ts";
import { openHostScope } from "../../../ipam-plugin/host-scope/open.ts";
import { formatAddress } from "../../../lib/addresses/address.ts";
import { fresh, TemporaryDirectory } from "../../support/fixtures.ts";
import { writeNodeRecordFor } from "../../support/host-scope-node.ts";

const PROGRAM = join(__dirname, "../../support/programs/grant-client.ts");
const PROCESSES = 20;
const EACH = 10;

function start(run: string, name: string): Bun.Subprocess<"pipe", "pipe", "inherit"> {
  return Bun.spawn([process.execPath, PROGRAM, run, name, String(EACH)], { stdin: "pipe", stdout: "pipe", stderr: "inherit" });
}

const directory = fresh(() => new TemporaryDirectory());

describe("A-I05: a long-lived process and 20 others take 220 addresses at once", () => {
  it("gives no address twice, although all of them want the first free one", async () => {
    const { path: run } = directory;
    writeNodeRecordFor(run, { ipv4: "10.62.0.0/24", strategy: "contiguous" });
    const processes = Array.from({ length: PROCESSES }, (_, index) => start(run, `p${index}`));
    const resident = openHostScope(hostScopeFiles(run));
    for (const { stdin } of processes) stdin.end();
    const own = await Promise.all(
      Array.from({ length: PROCESSES }, (_, index) => resident.grant({ owner: { kind: "name", name: `resident-${index}` } })),
    );
    const outputs = await Promise.all(processes.map(({ stdout }) => new Response(stdout).text()));
    expect(await Promise.all(processes.map(({ exited }) => exited))).toEqual(processes.map(() => 0));

    const taken = [
      ...own.flat().map(({ address }) => formatAddress(address)),
      ...outputs.flatMap((text) => text.split("\n").filter((line) => line !== "")),
    ];
    expect(taken).toHaveLength(PROCESSES * EACH + PROCESSES);
    expect(new Set(taken).size).toBe(taken.length);
    expect(readdirSync(join(run, "state/ipam/v4")).sort()).toEqual([...taken].sort());
  });
});
