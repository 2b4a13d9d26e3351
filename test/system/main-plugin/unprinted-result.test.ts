/** An ADD whose result nobody can read: the runtime knows of no attachment, so that there must be none (design, invariant 5). */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { localConf, podArgs } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { BIN_DIR, Node } from "../../support/node.ts";
import { expectNothingLeft } from "../../support/store.ts";

const node = fresh(Node.create);
const agent = fresh(() => Agent.start(node));

const SERVED = [
  ["by the plugin alone", "tortie", () => ({ agent: "off" })],
  ["by the agent, for the forwarder", "tortie", () => ({ agent: "require", agent_socket: agent.socket })],
  ["by the agent, for the program", "tortie-main", () => ({ agent: "require", agent_socket: agent.socket })],
  ["by tortie-ipam", "tortie-ipam", () => ({ agent: "off" })],
] as const;

const OUTPUTS = [
  ["a full device", (program: string) => `exec ${program} > /dev/full`],
  ["a pipe without a reader", (program: string) => `set -o pipefail; ${program} | :`],
] as const;

const cases = SERVED.flatMap(([served, plugin, mode]) => OUTPUTS.map(([output, script]) => ({ served, output, plugin, mode, script })));

it.each(cases)("R11: an ADD served $served is undone when its standard output is $output", async ({ plugin, mode, script }) => {
  const pod = await node.addPod();
  mkdirSync(join(node.dir, "bin"));
  const wrapped = join(node.dir, "bin", plugin);
  writeFileSync(wrapped, `#!/bin/bash\n${script(join(BIN_DIR, plugin))}\n`);
  chmodSync(wrapped, 0o755);

  const run = await node.cni("ADD", { plugin: wrapped, conf: localConf(node, mode()), pod, args: podArgs("web") });

  expect(run).toMatchObject({ exit: 1, stdout: "", stderr: expect.stringContaining("stdout-unwritable") });
  expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toEqual(["lo"]);
  await expectNothingLeft(node);
});
