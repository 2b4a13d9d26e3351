/**
 * An installer to which the kernel refuses a file operation: it says what failed where, and the host has its old state or its new one. The
 * next installation and `uninstall` find everything that the failed one left.
 */
import { ByHand, type Configuration, InPod } from "./configurations.ts";
import { type FileOperation, meeting, metIn, operationsIn, pathsIn, recorded } from "./file-operations.ts";

jest.setTimeout(600_000);

/** A full disk is what allocation meets, and a broken one what everything meets. */
const ALLOCATING = /^(openat|write|copy_file_range|ftruncate|mkdir|rename|renameat2|link)$/;
const errorsOf = ({ call }: FileOperation) => (ALLOCATING.test(call) ? (["ENOSPC", "EIO"] as const) : (["EIO"] as const));

/** A copy is whole without them: the kernel's own clone is only tried, and size and permissions are set a second time. */
const NEEDLESS = /^(ioctl|ftruncate|fchmod)$/;

const WORDS = { ENOSPC: /ENOSPC|no space left on device/i, EIO: /EIO|input\/output error|i\/o error/i };

interface Refusal {
  readonly operation: FileOperation;
  readonly error: keyof typeof WORDS;
}

describe.each([
  ["by hand", () => new ByHand()],
  ["in a pod, with kubeconfig and etcd's files", () => new InPod()],
])("An installer that meets a full or a broken disk, %s,", (how, create) => {
  it("says so and leaves the old state, or goes on and makes the new one", async () => {
    const configuration = create();
    using _server = configuration instanceof InPod ? configuration : undefined;
    using model = configuration.prepare();
    expect(await configuration.install(model, "old")).toMatchObject({ exit: 0 });
    expect(await configuration.install(model, "new", recorded(model))).toMatchObject({ exit: 0 });
    const paths = pathsIn(model);
    const refusals = operationsIn(model).flatMap((operation) => errorsOf(operation).map((error) => ({ operation, error })));

    const passed: Refusal[] = [];
    for (const [index, refusal] of refusals.entries()) {
      if (await meets(configuration, refusal, paths, index % 2 === 0)) passed.push(refusal);
    }
    expect(passed.filter(({ operation: { call } }) => !NEEDLESS.test(call))).toEqual([]);
    const named = [...new Set(passed.map(({ operation: { call, path } }) => `${call} ${path.split("/").at(-1)}`))].sort().join(", ");
    process.stdout.write(`${how}: ${refusals.length} refusals, of which ${passed.length} did not matter (${named})\n`);
  });
});

/** @returns whether the installation succeeded all the same */
async function meets(configuration: Configuration, { operation, error }: Refusal, paths: readonly string[], isRepeated: boolean) {
  using host = configuration.prepare();
  const before = [host.names(host.binDir), host.names(host.netDir)];
  expect(await configuration.install(host, "old")).toMatchObject({ exit: 0 });

  const run = await configuration.install(host, "new", meeting(host, operation, paths, `error=${error}`));
  const story = { ...operation, error, ...run };
  expect({ story, met: metIn(host, operation, (line) => line.endsWith("(INJECTED)")) }).toEqual({ story, met: operation.path });
  const found = configuration.versionOf(host);
  if (run.exit === 0) expect({ story, found }).toEqual({ story, found: "new" });
  else {
    expect({ story, found }).toEqual({ story, found: expect.stringMatching(/^(old|new)$/) });
    expect({ story, log: run.log }).toEqual({ story, log: expect.stringMatching(WORDS[error]) });
    expect({ story, log: run.log }).toEqual({ story, log: expect.stringContaining("install-failed") });
    expect({ story, log: run.log }).toEqual({ story, log: expect.stringContaining(host.root) });
    // What fills the disk goes, unless that is what was refused.
    const begun = [...host.names(host.binDir), ...host.names(host.netDir)].filter((name) => name.endsWith(".tmp"));
    if (!operation.call.startsWith("unlink")) expect({ story, begun }).toEqual({ story, begun: [] });
  }

  if (isRepeated) {
    expect({ story, ...(await configuration.install(host, "new")) }).toMatchObject({ story, exit: 0 });
    expect({ story, found: configuration.versionOf(host) }).toEqual({ story, found: "new" });
  }
  expect({ story, ...(await configuration.uninstall(host)) }).toMatchObject({ story, exit: 0 });
  expect({ story, left: [host.names(host.binDir), host.names(host.netDir)] }).toEqual({ story, left: before });
  return run.exit === 0;
}
