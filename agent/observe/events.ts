/**
 * Writes Kubernetes events: warnings at a pod or a policy, one for a cause. A cause that comes again within ten minutes raises the count of
 * its event or is left out, as whoever reports it asks. Nothing waits for an event: it is written behind, at most one request a second from a
 * node, and what the server does not take is left out.
 */
import { messageOf } from "../../lib/errors/errors.ts";
import type { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import { excerpt } from "../../lib/log/format.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import type { Health } from "../../lib/resident/health.ts";
import { sha256 } from "../../lib/system/hash.ts";
import { RecentMap } from "../../lib/system/recent-map.ts";
import type { Clock } from "../../lib/system/waiting.ts";

/** A cause that comes again after so long is another event. client-go's EventCorrelator aggregates over the same time. */
export const SAME_EVENT_MS = 600_000;
/** Causes that are remembered; beyond that the oldest is forgotten, and may come again early. */
const MOST_REMEMBERED = 1_000;
/** Events that wait for the server; further ones are left out. */
const MOST_WAITING = 50;
/** Limits what a node may ask of the server: an event each second. */
const BETWEEN_MS = 1_000;
/** A message of an event has 1,024 bytes at most (core/v1 validation of kube-apiserver), and a character of ours up to three. */
export const MOST_MESSAGE = 340;
/** Of a name: DNS-1123 subdomain (253) less the point and the digest. */
const MOST_NAME = 253 - 1 - 16;
const FINDING = "events";

export interface EventWriterParts {
  readonly connection: Pick<ApiConnection, "exchange">;
  readonly node: string;
  readonly clock: Clock;
  readonly log: Pick<AgentLog, "debug">;
  readonly health: Pick<Health, "find">;
}

export interface EventText {
  readonly kind: "Pod" | "NetworkPolicy";
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly reason: string;
  readonly message: string;
  /** Names the cause among all of this node. */
  readonly cause: string;
  /** Whoever writes an event of the same identity writes the same event. */
  readonly identity: string;
  readonly whenRepeated: "count" | "leave-out";
}

/** Has what is known of an event that was reported. */
interface Reported {
  readonly text: EventText;
  readonly path: string;
  readonly first: string;
  last: string;
  message: string;
  count: number;
  /** When it was reported: the last time where repetitions are counted, else the first. */
  at: number;
  isWritten: boolean;
}

export class EventWriter implements AsyncDisposable {
  readonly #parts: EventWriterParts;
  readonly #reported = new RecentMap<string, Reported>(MOST_REMEMBERED);
  readonly #waiting = new Set<Reported>();
  readonly #ending = new AbortController();
  #sending: Promise<void> | undefined;

  constructor(parts: EventWriterParts) {
    this.#parts = parts;
  }

  /** Writes the event, or raises the count of the one that tells of the same cause. Returns at once. */
  report(text: EventText): void {
    const { clock } = this.#parts;
    const [now, time] = [clock.now(), clock.date().toISOString()];
    const known = this.#reported.get(text.cause);
    const isSame = known !== undefined && now - known.at < SAME_EVENT_MS;
    if (isSame && text.whenRepeated === "leave-out") return;
    if (isSame) {
      known.count += 1;
      Object.assign(known, { at: now, last: time, message: text.message });
    }
    const path = `/api/v1/namespaces/${encodeURIComponent(text.namespace)}/events`;
    const event = isSame ? known : { text, path, first: time, last: time, message: text.message, count: 1, at: now, isWritten: false };
    this.#reported.set(text.cause, event);
    this.#send(event);
  }

  /** Leaves out what waits. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#waiting.clear();
    this.#ending.abort();
    await this.#sending;
  }

  #send(event: Reported): void {
    if (this.#ending.signal.aborted || this.#waiting.size >= MOST_WAITING) return;
    this.#waiting.add(event);
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
  }

  async #sendAll(): Promise<void> {
    const { clock, log } = this.#parts;
    for (let [event] = this.#waiting; event !== undefined; [event] = this.#waiting) {
      this.#waiting.delete(event);
      try {
        await this.#write(event);
      } catch (error) {
        log.debug("an event was not written", { of: `${event.text.namespace}/${event.text.name}`, error: messageOf(error) });
      }
      await clock.sleep(BETWEEN_MS, this.#ending.signal);
    }
  }

  async #write(event: Reported): Promise<void> {
    const first = await this.#ask(event.isWritten ? "PATCH" : "POST", event);
    const isExpired = event.isWritten && first === 404;
    // The answer to an earlier request was lost: only this agent counts this event.
    const isThere = !event.isWritten && first === 409 && event.text.whenRepeated === "count";
    const status = isExpired ? await this.#ask("POST", event) : isThere ? await this.#ask("PATCH", event) : first;
    const finding = "the agent's account may not create and patch events: what goes wrong is not said at the pods";
    this.#parts.health.find(FINDING, status === 403 ? finding : undefined);
    event.isWritten = status < 300;
    // 409: another agent has written it. 404: the namespace is gone.
    if (status >= 400 && ![403, 404, 409].includes(status)) throw new Error(`the API server answered ${status}`);
  }

  async #ask(method: "POST" | "PATCH", event: Reported): Promise<number> {
    const { connection, node } = this.#parts;
    const whole = bodyOf(event, node);
    const { message, lastTimestamp, count } = whole;
    const call =
      method === "POST"
        ? ({ method, path: event.path, body: JSON.stringify(whole) } as const)
        : ({
            ...{ method, path: `${event.path}/${encodeURIComponent(whole.metadata.name)}` },
            ...{ body: JSON.stringify({ message, lastTimestamp, count }), contentType: "application/merge-patch+json" },
          } as const);
    return (await connection.exchange(call)).status;
  }
}

/** @param key "namespace/name" */
export function namedBy(key: string): { readonly namespace: string; readonly name: string } {
  const [namespace = "", name = ""] = key.split("/");
  return { namespace, name };
}

function bodyOf({ text, first, last, message, count }: Reported, host: string) {
  const { kind, namespace, name, uid, reason, identity } = text;
  const digest = sha256(`${reason} ${identity}`).slice(0, 16);
  return {
    apiVersion: "v1",
    kind: "Event",
    // What is cut may end in a point or a dash, which may not stand before a point.
    metadata: { name: `${name.slice(0, MOST_NAME).replace(/[-.]+$/, "")}.${digest}`, namespace },
    involvedObject: { apiVersion: kind === "Pod" ? "v1" : "networking.k8s.io/v1", kind, namespace, name, uid },
    type: "Warning",
    reason,
    message: excerpt(message, MOST_MESSAGE - 1),
    source: { component: "tortie-node", host },
    firstTimestamp: first,
    lastTimestamp: last,
    count,
  };
}
