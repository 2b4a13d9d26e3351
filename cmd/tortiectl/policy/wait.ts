/** Runs `tortiectl policy wait`. */
import { TortieError } from "../../../lib/errors/errors.ts";
import { type AgentOptions, asking } from "../ask-agent.ts";
import { milliseconds } from "../options.ts";
import { oneLine, type Terminal } from "../terminal.ts";

interface WaitOptions extends AgentOptions {
  readonly policy: string | undefined;
  readonly resourceVersion: string | undefined;
  /** Seconds. */
  readonly timeout: number;
}

const MOST_SECONDS = 300;
/** What the agent has for its answer when the time is over. */
const ANSWER_MS = 5_000;

/** @returns exit status: 1 when the kernel does not hold it in time */
export function wait(options: WaitOptions, terminal: Terminal): Promise<number> {
  return asking(options, terminal, async (client) => {
    const { policy, resourceVersion, timeout } = options;
    const limitMs = milliseconds("timeout", timeout);
    if (timeout > MOST_SECONDS) throw new TortieError("option-invalid", `--timeout wants ${MOST_SECONDS} seconds at most`);
    const { body } = await client.call("waitForPolicy", {
      query: { policy, "resource-version": resourceVersion, timeout },
      signal: AbortSignal.timeout(limitMs + ANSWER_MS),
    });
    const what = policy ?? "every policy";
    if (options.json) terminal.out(JSON.stringify(body, undefined, 2));
    else if (body.realised) terminal.out(`the kernel of this node holds ${what}`);
    else {
      terminal.err(`the kernel of this node does not hold ${what} after ${timeout} s`);
      for (const reason of body.reasons) terminal.err(`  ${oneLine(reason)}`);
      for (const { pod, reason, ...endpoint } of body.pending) terminal.err(`  ${pod ?? endpoint["host-interface"]}: ${oneLine(reason)}`);
    }
    return body.realised ? 0 : 1;
  });
}
