/** What policy's table has of a pod, on a node that enforces policy: explained, and repaired by the agent at once. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { ExplainedNode, wrongIn } from "../../support/explained-node.ts";
import { fresh } from "../../support/fixtures.ts";
import { policyTable } from "../../support/policy-agent.ts";

const here = fresh(ExplainedNode.create);
const agent = fresh(async () => {
  const directory = join(here.node.dir, "policies");
  mkdirSync(directory);
  here.agent = await Agent.start(here.node, { args: ["--policy-directory", directory] });
  return here.agent;
});

async function nft(...command: string[]): Promise<string> {
  const { exit, stdout, stderr } = await here.node.run(["/usr/sbin/nft", ...command]);
  expect({ command, exit, stderr }).toEqual({ command, exit: 0, stderr: "" });
  return stdout;
}

const FOREIGN = 'add table inet foreign; add map inet foreign from-endpoint { type ifname : verdict; elements = { "cali1" : drop }; }';

it("an element that is missing is named, and mended at once with nothing else touched", async () => {
  const [web] = [await here.add("web", "aa11"), await here.add("db", "bb22")];
  await nft(FOREIGN);
  const [table, foreign] = [await policyTable(here.node), await nft("list", "table", "inet", "foreign")];
  expect(wrongIn(await here.explain("pod", "default/web"))).toEqual([]);
  await nft("delete", "element", "inet", "tortie-policy", "from-endpoint", `{ "${web.hostInterface}" }`);

  const [explained, other] = [await here.explain("pod", "default/web"), await here.explain("pod", "default/db")];
  const dry = await here.here("repair", "pod", "default/web", "--dry-run");
  const untouched = await policyTable(here.node);
  const repaired = await here.here("repair", "pod", "default/web", "--yes");

  expect(wrongIn(explained)).toEqual([
    expect.stringMatching(/^interface cali.*does not know cali.*every packet of it is dropped -> tortiectl repair pod default\/web$/),
    expect.stringMatching(/^interface cali.*not as the agent made it: map from-endpoint lacks cali/),
  ]);
  expect(explained.attachments[0]?.rules).toContainEqual(expect.objectContaining({ by: "policy", isPresent: false }));
  expect(wrongIn(other)).toEqual([expect.stringMatching(/^network policy: .*map from-endpoint lacks cali.*repair node --yes$/)]);
  expect(dry).toMatchObject({ exit: 1, stdout: expect.stringMatching(/lacks cali[\s\S]*nothing was changed/) });
  expect(untouched).not.toBe(table);
  expect(repaired).toMatchObject({ exit: 0, stdout: expect.stringContaining(`mended: map from-endpoint lacks ${web.hostInterface}`) });
  expect([await policyTable(here.node), await nft("list", "table", "inet", "foreign")]).toEqual([table, foreign]);
  const after = await here.explain("pod", "default/web");
  expect(wrongIn(after)).toEqual([]);
  expect(after.history.filter(({ event }) => event === "repair").map(({ outcome, message }) => `${outcome}: ${message}`)).toEqual([
    expect.stringMatching(/^ok: mended: map from-endpoint lacks cali/),
    expect.stringMatching(/^warning: begins: policy is on, and its table does not know cali/),
  ]);
});

it("a rule of the table that judges all pods, and a table that is gone, are the node's to repair", async () => {
  await here.add("web", "aa11");
  const table = await policyTable(here.node);
  await nft("insert", "rule", "inet", "tortie-policy", "forward", "accept");
  const open = await here.here("repair", "node");
  expect(await here.here("repair", "node", "--yes")).toMatchObject({
    exit: 0,
    stdout: expect.stringContaining("chain forward has other rules"),
  });
  expect(await policyTable(here.node)).toBe(table);
  await nft("delete", "table", "inet", "tortie-policy");

  const gone = await here.explain("pod", "default/web");
  const repaired = await here.here("repair", "node", "--yes");

  expect(open).toMatchObject({ exit: 1, stdout: expect.stringMatching(/this host: chain forward has other rules/) });
  expect(wrongIn(gone)).toContainEqual(
    expect.stringMatching(/its table is missing: every packet of cali.* passes -> .*repair pod default\/web$/),
  );
  expect(repaired).toMatchObject({ exit: 0, stdout: expect.stringContaining("mended: table inet tortie-policy is missing") });
  expect([await policyTable(here.node), wrongIn(await here.explain("pod", "default/web"))]).toEqual([table, []]);
});

it("without an agent a closed pod stays closed, and that is said with who can open it", async () => {
  const web = await here.add("web", "aa11");
  await nft("delete", "element", "inet", "tortie-policy", "to-endpoint", `{ "${web.hostInterface}" }`);
  await agent.kill();
  const closed = await policyTable(here.node);

  const explained = await here.explain("pod", "default/web");
  const repaired = await here.here("repair", "pod", "default/web", "--yes");

  expect(wrongIn(explained)).toContainEqual(
    expect.stringMatching(/does not know cali.* -> start the agent of this node .*alone writes.*tortiectl policy off$/),
  );
  expect(repaired).toMatchObject({ exit: 1, stdout: expect.stringMatching(/does not know cali.*; start the agent of this node/) });
  expect(await policyTable(here.node)).toBe(closed);
});
