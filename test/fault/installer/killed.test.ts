/**
 * An installer that is killed at any file operation: the host has its old state or its new one, whatever the conflist names is there and
 * works, and the next installation and `uninstall` find everything that the killed one left.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Installation } from "../../support/installation.ts";
import { ByHand, type Configuration, InPod } from "./configurations.ts";
import { meeting, metIn, operationsIn, pathsIn, recorded } from "./file-operations.ts";

jest.setTimeout(600_000);

/** The host as it is before the installation that is killed. */
async function hostFor(configuration: Configuration, which: "first" | "second"): Promise<Installation> {
  const host = configuration.prepare();
  if (which === "second") expect(await configuration.install(host, "old")).toMatchObject({ exit: 0 });
  return host;
}

const stateOf = (host: Installation) => [host.names(host.binDir), host.names(host.netDir)];

describe.each([
  ["by hand", () => new ByHand()],
  ["in a pod, with kubeconfig and etcd's files", () => new InPod()],
])("An installer killed at every file operation, %s,", (_how, create) => {
  it.each(["first", "second"] as const)(
    "in its %s installation, leaves the old state or the new one, and nothing unknown",
    async (which) => {
      const configuration = create();
      using _server = configuration instanceof InPod ? configuration : undefined;
      using model = await hostFor(configuration, which);
      expect(await configuration.install(model, "new", recorded(model))).toMatchObject({ exit: 0 });
      const paths = pathsIn(model);
      const operations = operationsIn(model);

      for (const [index, operation] of operations.entries()) {
        using empty = configuration.prepare();
        const before = stateOf(empty);
        using host = await hostFor(configuration, which);
        const run = await configuration.install(host, "new", meeting(host, operation, paths, "signal=SIGKILL"));
        const story = { which, ...operation };
        expect({ story, signal: run.signal, met: metIn(host, operation, (line) => /(?: = \?| <unfinished \.\.\.>)$/.test(line)) }).toEqual({
          story,
          signal: "SIGKILL",
          met: operation.path,
        });
        const found = configuration.versionOf(host);
        expect({ story, found, isOne: [which === "second" ? "old" : undefined, "new"].includes(found) }).toMatchObject({ isOne: true });

        // Half of the time somebody tries again, and half of the time gives up.
        if (index % 2 === 0) {
          expect({ story, ...(await configuration.install(host, "new")) }).toMatchObject({ story, exit: 0 });
          expect({ story, found: configuration.versionOf(host) }).toEqual({ story, found: "new" });
        }
        expect({ story, ...(await configuration.uninstall(host)) }).toMatchObject({ story, exit: 0 });
        expect({ story, left: stateOf(host) }).toEqual({ story, left: before });
        expect(readFileSync(join(host.netDir, "10-calico.conflist"), "utf8")).toBe("{}");
      }
      const calls = [...new Set(operations.map(({ call }) => call))].sort().join(", ");
      process.stdout.write(`${_how}, ${which} installation: killed at all of its ${operations.length} operations (${calls})\n`);
      expect(operations.length).toBeGreaterThan(20);
    },
  );
});
