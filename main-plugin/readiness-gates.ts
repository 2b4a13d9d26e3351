/**
 * `readiness_gates`: URLs that must answer before a container is added (C§2.2). The first probe goes out at once, where Calico's comes
 * after 5 s (design §8). Few configurations have gates: load this file only for those.
 */
import { messageOf, TortieError } from "../lib/errors/errors.ts";

const PROBE_LIMIT_MS = 5_000;
const INTERVAL_MS = 5_000;
const GATE_LIMIT_MS = 30_000;

/** The outside, for tests. */
export interface GateServices {
  readonly fetch: (url: string, options: { readonly signal: AbortSignal; readonly redirect: "follow" }) => Promise<Response>;
  readonly sleep: (milliseconds: number) => Promise<void>;
  /** Milliseconds of a clock that never jumps. */
  readonly now: () => number;
}

/**
 * One gate after the other, each with 30 s of its own.
 *
 * @param urls absolute; `checkReadinessGates` has judged them
 * @throws TortieError `readiness-gate-closed` naming the gate and what its last probe came to
 */
export async function awaitReadinessGates(urls: readonly string[], services: Partial<GateServices> = {}): Promise<void> {
  const { fetch = globalThis.fetch, sleep = Bun.sleep, now = () => performance.now() } = services;
  for (const url of urls) await awaitGate(url, { fetch, sleep, now });
}

/**
 * One probe of each gate, for STATUS, which only wants to know.
 * @throws TortieError `readiness-gate-closed` for the first that is not ready
 */
export async function assertReadinessGates(urls: readonly string[], services: Pick<Partial<GateServices>, "fetch"> = {}): Promise<void> {
  const { fetch = globalThis.fetch } = services;
  for (const url of urls) {
    const problem = await probe(url, PROBE_LIMIT_MS, fetch);
    if (problem !== undefined) throw closed(`readiness gate ${withoutCredentials(url)} is not ready: ${problem}`);
  }
}

async function awaitGate(url: string, services: GateServices): Promise<void> {
  const { fetch, sleep, now } = services;
  const end = now() + GATE_LIMIT_MS;
  for (;;) {
    const started = now();
    const problem = await probe(url, Math.min(PROBE_LIMIT_MS, end - started), fetch);
    if (problem === undefined) return;
    const next = Math.max(now(), started + INTERVAL_MS);
    if (next >= end) {
      // Calico's words (recording gates-500), and what they leave out.
      const gate = `readiness gate ${withoutCredentials(url)}`;
      throw closed(`context deadline exceeded: ${gate} was not ready within ${GATE_LIMIT_MS / 1_000} s, at last: ${problem}`);
    }
    await sleep(next - now());
  }
}

/** @returns `undefined` when the gate is ready: a status of 200 to 399 behind all redirects */
async function probe(url: string, limitMs: number, fetch: GateServices["fetch"]): Promise<string | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(limitMs), redirect: "follow" });
    // Only the status counts; nobody waits for the body.
    await response.body?.cancel();
    return response.status >= 200 && response.status < 400 ? undefined : `status ${response.status}`;
  } catch (error) {
    const isLate = error instanceof Error && error.name === "TimeoutError";
    return isLate ? `no answer within ${Math.ceil(limitMs / 1_000)} s` : messageOf(error);
  }
}

function closed(message: string): TortieError {
  return new TortieError("readiness-gate-closed", message);
}

/** Neither a password nor a token is shown. */
function withoutCredentials(url: string): string {
  const shown = URL.parse(url);
  if (shown === null) return "with an invalid URL";
  shown.username = "";
  shown.password = "";
  shown.search = "";
  return shown.href;
}
