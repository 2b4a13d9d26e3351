/**
 * Holds a PolicyTable in a node's network namespace, as the agent does, and does with it what it is told: one command a line on standard
 * input, in JSON, each answered by a line.
 */
import { createInterface } from "node:readline";
import { deleteFlows, flowsOf } from "../../../dataplane/conntrack/flows.ts";
import { HostSockets } from "../../../dataplane/netlink/host-sockets.ts";
import { longTransaction, newPlainChain, remove } from "../../../dataplane/nftables/message.ts";
import { PolicyContent } from "../../../dataplane/nftables/policy/content.ts";
import { POLICY_TABLE } from "../../../dataplane/nftables/policy/layout.ts";
import { PolicyTable } from "../../../dataplane/nftables/policy/policy-table.ts";
import { rebuilding } from "../../../dataplane/nftables/policy/requests.ts";
import { fromNothing } from "../../../dataplane/nftables/policy/ruleset.ts";
import { Slices } from "../../../lib/system/slices.ts";
import { address } from "../addresses.ts";
import { changeOf, type PolicyText, policyOf } from "../packet-policy-text.ts";

interface Command {
  readonly id: number;
  readonly do: string;
  readonly policy?: PolicyText;
  readonly addresses?: readonly string[];
  readonly times?: number;
  readonly classes?: readonly string[];
}

const sockets = new HostSockets();
const options = { prefixes: ["cali"], logGroup: 7 };
const table = new PolicyTable(sockets, options);

/** Moves each address from class to class, one change after the other, a thousand a second. */
async function churn({ addresses = [], classes = [], times = 0 }: Command): Promise<number> {
  const began = performance.now();
  for (let at = 0; at < times; at++) {
    const address = addresses[at % addresses.length] ?? "";
    const name = classes[Math.floor(at / addresses.length) % classes.length] ?? "";
    await table.apply(changeOf({ addresses: { [address]: name } }));
    const early = at + 1 - (performance.now() - began);
    if (early > 0) await Bun.sleep(early);
  }
  return (times / (performance.now() - began)) * 1000;
}

/** Begins to take the table apart in one transaction whose last message the kernel must refuse. */
function breakInTheMiddle(): string {
  const chain = (name: string) => remove("rule", "inet", POLICY_TABLE, name);
  const requests = [chain("forward"), chain("input"), newPlainChain("inet", POLICY_TABLE, "half"), chain("no-such-chain")];
  try {
    sockets.netfilter.batch(longTransaction(requests));
    return "accepted";
  } catch (error) {
    return String(error);
  }
}

const flowsOfAll = (addresses: readonly string[]) => flowsOf(addresses.map(address));

const COMMANDS: Readonly<Record<string, (command: Command) => unknown>> = {
  replace: ({ policy = {} }) => table.replace(policyOf(policy)),
  rebuild: async ({ policy = {}, times = 0 }) => {
    for (let at = 0; at < times; at++) {
      const slices = new Slices();
      const content = await PolicyContent.of(options, policyOf(policy), slices);
      sockets.netfilter.batch(longTransaction(await rebuilding(fromNothing(content), slices)));
      await Bun.sleep(20);
    }
  },
  apply: ({ policy = {} }) => table.apply(changeOf(policy)),
  inspect: ({ policy = {} }) => table.inspect(policyOf(policy)),
  remove: () => table.remove(),
  counters: () => table.counters(),
  judged: () => table.judged(),
  flows: ({ addresses = [] }) => flowsOfAll(addresses),
  deleteFlows: async ({ addresses = [] }) => deleteFlows(sockets.netfilter, await flowsOfAll(addresses)),
  churn,
  breakInTheMiddle,
};

const plain = (_: string, value: unknown) => (typeof value === "bigint" ? Number(value) : value);

for await (const line of createInterface({ input: process.stdin })) {
  const command: Command = JSON.parse(line);
  let answer: unknown;
  try {
    answer = { value: await COMMANDS[command.do]?.(command) };
  } catch (error) {
    answer = { error: String(error) };
  }
  console.log(JSON.stringify({ id: command.id, ...Object(answer) }, plain));
}
