/**
 * Makes the kernel enforce a policy: table `inet tortie-policy`, which layout.ts describes. What the table must hold is kept in memory, so
 * that a change costs in proportion to itself; whoever edits the table meanwhile is noticed when the kernel refuses a change, or by
 * `replace` and `inspect`, which read the table.
 *
 * A change is one transaction: the kernel takes all of it or nothing, and a process that ends at any moment leaves the old table or the new
 * one. The table stays when the process ends. Nothing in use is flushed, and connections go on through every change.
 */
import { messageOf, TortieError } from "../../../lib/errors/errors.ts";
import { Slices } from "../../../lib/system/slices.ts";
import { nextTurn } from "../../../lib/system/waiting.ts";
import type { HostSockets } from "../../netlink/host-sockets.ts";
import { NetlinkError } from "../../netlink/message.ts";
import type { Request } from "../../netlink/socket.ts";
import type { PacketPolicy, PolicyChange } from "../../packet-policy.ts";
import { emptying, getGeneration, longTransaction, parseGeneration } from "../message.ts";
import { type Comparison, compare } from "./compare.ts";
import { PolicyContent } from "./content.ts";
import { type DropCount, type JudgedCount, readCounters, readJudged } from "./counters.ts";
import { readTable } from "./dump.ts";
import type { LayoutOptions } from "./layout.ts";
import { POLICY_TABLE } from "./layout.ts";
import { rebuilding, transactionsOf } from "./requests.ts";
import { fromNothing } from "./ruleset.ts";

const EPERM = 1;
const EINTR = 4;
const ERESTART = 85;
/** Allows for others that write nftables at the same moment, such as kube-proxy; each of them succeeds once. */
const TRIES = 100;
/** Allows for a difference that the kernel does not let us mend: then the table is made again. */
const TRIES_TO_MEND = 2;

export class PolicyTable {
  readonly #sockets: Pick<HostSockets, "netfilter">;
  readonly #options: LayoutOptions;
  /** What the table must hold; `undefined` before the first `replace`. */
  #content: PolicyContent | undefined;
  /** Says that the kernel holds it, as far as this process knows. */
  #isRealised = false;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(sockets: Pick<HostSockets, "netfilter">, options: LayoutOptions) {
    this.#sockets = sockets;
    this.#options = options;
  }

  /**
   * Makes the kernel hold exactly this policy, whatever was there before.
   * @returns what differed, one phrase each; none when the table was right
   * @throws TortieError `policy-failed`
   */
  replace(state: PacketPolicy): Promise<readonly string[]> {
    return this.#inTurn(`failed to make nftables table ${POLICY_TABLE}`, async (slices) => {
      this.#content = await PolicyContent.of(this.#options, state, slices);
      return await this.#mend(this.#content, slices);
    });
  }

  /**
   * Carries a change of the policy out. Where the kernel refuses, because somebody has edited the table, the table is mended.
   * @throws TortieError `policy-failed`; the next call then tries this change again along with its own
   */
  apply(change: PolicyChange): Promise<void> {
    return this.#inTurn(`failed to change nftables table ${POLICY_TABLE}`, async (slices) => {
      const content = this.#content;
      if (content === undefined) throw new Error("the policy's table is changed before it was made: replace() comes first");
      const wasRealised = this.#isRealised;
      // Until all of it is carried out, an error at any place leaves what the next call must compare.
      this.#isRealised = false;
      await content.apply(change, slices);
      const transactions = await transactionsOf(await content.take(slices), slices);
      if (wasRealised && (await this.#isCarriedOut(transactions, slices))) this.#isRealised = true;
      else await this.#mend(content, slices);
    });
  }

  /** Compares the kernel with this policy and changes nothing. @returns one phrase for each difference @throws TortieError `policy-failed` */
  inspect(state: PacketPolicy): Promise<readonly string[]> {
    return this.#inTurn(`failed to read nftables table ${POLICY_TABLE}`, async (slices) => {
      const wanted = await PolicyContent.of(this.#options, state, slices);
      return whileOthersWrite(async () => (await this.#compare(wanted, slices)).differences);
    });
  }

  /** Removes the whole table, so that nothing is judged any more. Succeeds if there is none. @throws TortieError `policy-failed` */
  remove(): Promise<void> {
    return this.#inTurn(`failed to remove nftables table ${POLICY_TABLE}`, async () => {
      this.#content = undefined;
      this.#isRealised = false;
      this.#sockets.netfilter.batch(longTransaction(emptying("inet", POLICY_TABLE)));
    });
  }

  /** Reads how many packets were dropped since the table was made, by direction and reason. @throws TortieError `policy-failed` */
  counters(): Promise<readonly DropCount[]> {
    return this.#inTurn(`failed to read counters of nftables table ${POLICY_TABLE}`, async () =>
      whileOthersWrite(() => readCounters(this.#sockets.netfilter)),
    );
  }

  /** Reads how many packets that begin connections were judged since the table was made. @throws TortieError `policy-failed` */
  judged(): Promise<readonly JudgedCount[]> {
    return this.#inTurn(`failed to read counters of nftables table ${POLICY_TABLE}`, async () =>
      whileOthersWrite(() => readJudged(this.#sockets.netfilter)),
    );
  }

  async #compare(wanted: PolicyContent, slices: Slices): Promise<Comparison> {
    return await compare(await readTable(this.#sockets.netfilter, slices), wanted, slices);
  }

  async #mend(content: PolicyContent, slices: Slices): Promise<readonly string[]> {
    this.#isRealised = false;
    let refusals = 0;
    for (let tries = 1; ; tries++) {
      try {
        const differences = await this.#mendOnce(content, refusals >= TRIES_TO_MEND, slices);
        this.#isRealised = true;
        return differences;
      } catch (error) {
        if (!(error instanceof NetlinkError) || error.errno === EPERM || tries === TRIES) throw error;
        if (error.errno !== ERESTART && error.errno !== EINTR && ++refusals > TRIES_TO_MEND) throw error;
        await slices.next();
      }
    }
  }

  /** @param isRebuilt the table is deleted and made again, in one transaction */
  async #mendOnce(content: PolicyContent, isRebuilt: boolean, slices: Slices): Promise<readonly string[]> {
    const socket = this.#sockets.netfilter;
    const [answer] = socket.request(getGeneration());
    const generation = answer && parseGeneration(answer);
    const comparison = await this.#compare(content, slices);
    const { differences } = comparison;
    if (differences.length === 0) return differences;
    if (isRebuilt || comparison.isRebuilt) {
      socket.batch(longTransaction(await rebuilding(fromNothing(content), slices), generation));
      return differences;
    }
    await this.#send(await transactionsOf(comparison.change, slices), slices, generation);
    return differences;
  }

  async #isCarriedOut(transactions: readonly Request[][], slices: Slices): Promise<boolean> {
    try {
      await this.#send(transactions, slices);
      return true;
    } catch (error) {
      if (!(error instanceof NetlinkError) || error.errno === EPERM) throw error;
      return false;
    }
  }

  /** @param generation the condition of the first transaction; our own raise it */
  async #send(transactions: readonly Request[][], slices: Slices, generation?: number): Promise<void> {
    for (const [at, requests] of transactions.entries()) {
      // A slice for each, and none for a small change.
      if (transactions.length > 1) await slices.next();
      this.#sockets.netfilter.batch(longTransaction(requests, at === 0 ? generation : undefined));
    }
  }

  /** Has one call after the other carried out: each relies on what the one before has left. */
  #inTurn<T>(what: string, work: (slices: Slices) => Promise<T>): Promise<T> {
    const result = this.#turn.then(async () => {
      try {
        return await work(new Slices());
      } catch (error) {
        if (error instanceof NetlinkError) throw new TortieError("policy-failed", `${what}: ${messageOf(error)}`, { cause: error });
        throw error;
      }
    });
    this.#turn = result.catch(() => {});
    return result;
  }
}

/** Reads again while others change nftables, which disturbs a dump. */
async function whileOthersWrite<T>(read: () => T | Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof NetlinkError) || error.errno !== EINTR || tries === TRIES) throw error;
      await nextTurn();
    }
  }
}
