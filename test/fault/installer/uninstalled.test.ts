/**
 * An uninstallation that is killed, or refused a file operation: what the conflist names works as long as the list is there, and the next
 * uninstallation or installation finds everything that is left.
 */
import type { Installation, InstallRun } from "../../support/installation.ts";
import { ByHand, type Configuration, InPod } from "./configurations.ts";
import { type FileOperation, meeting, metIn, operationsIn, pathsIn, recorded } from "./file-operations.ts";

jest.setTimeout(600_000);

const FAULTS = {
  "signal=SIGKILL": { met: / (?:= \?|<unfinished \.\.\.>)$/, isExpected: ({ signal }: InstallRun) => signal === "SIGKILL" },
  "error=EIO": {
    met: /\(INJECTED\)$/,
    isExpected: ({ exit, log }: InstallRun) => exit === 1 && /EIO|input\/output error/i.test(log) && log.includes("uninstall-failed"),
  },
} as const;

const stateOf = (host: Installation) => [host.names(host.binDir), host.names(host.netDir)];

describe.each([
  ["by hand", () => new ByHand()],
  ["in a pod, with kubeconfig and etcd's files", () => new InPod()],
])("An uninstallation, %s,", (how, create) => {
  it.each(Object.keys(FAULTS) as (keyof typeof FAULTS)[])(
    "that meets %s at any file operation, leaves what works, or nothing",
    async (fault) => {
      const configuration = create();
      using _server = configuration instanceof InPod ? configuration : undefined;
      using model = configuration.prepare();
      const before = stateOf(model);
      expect(await configuration.install(model, "new")).toMatchObject({ exit: 0 });
      expect(await configuration.uninstall(model, recorded(model))).toMatchObject({ exit: 0 });
      expect(stateOf(model)).toEqual(before);
      const operations = operationsIn(model);

      for (const [index, operation] of operations.entries())
        await meets(configuration, operation, pathsIn(model), fault, before, index % 2 === 0);
      process.stdout.write(`${how}, ${fault}: at all ${operations.length} operations\n`);
      expect(operations.length).toBeGreaterThan(10);
    },
  );
});

async function meets(
  configuration: Configuration,
  operation: FileOperation,
  paths: readonly string[],
  fault: keyof typeof FAULTS,
  before: readonly (readonly string[])[],
  isReinstalled: boolean,
): Promise<void> {
  using host = configuration.prepare();
  expect(await configuration.install(host, "new")).toMatchObject({ exit: 0 });

  const run = await configuration.uninstall(host, meeting(host, operation, paths, fault));

  const story = { ...operation, ...run };
  expect({ story, met: metIn(host, operation, (line) => FAULTS[fault].met.test(line)) }).toEqual({ story, met: operation.path });
  expect({ story, isExpected: FAULTS[fault].isExpected(run) }).toEqual({ story, isExpected: true });
  const found = configuration.versionOf(host);
  expect({ story, isOne: [undefined, "new"].includes(found) }).toEqual({ story, isOne: true });

  if (isReinstalled) {
    expect({ story, ...(await configuration.install(host, "new")) }).toMatchObject({ story, exit: 0 });
    expect({ story, found: configuration.versionOf(host) }).toEqual({ story, found: "new" });
  }
  expect({ story, ...(await configuration.uninstall(host)) }).toMatchObject({ story, exit: 0 });
  expect({ story, left: stateOf(host) }).toEqual({ story, left: before });
}
