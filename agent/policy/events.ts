/**
 * Writes Kubernetes events: at a pod that a policy drops its packets, at a policy that it is invalid. At most one in ten minutes for the
 * same pod and policies, and one for a version of a policy in the whole cluster, since the name of the event follows from what it says.
 * Nothing waits for an event, and none is repeated: who wants all drops asks the agent.
 */
import { createHash } from "node:crypto";
import { messageOf } from "../../lib/errors/errors.ts";
import type { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import { excerpt } from "../../lib/log/format.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import type { Health } from "../../lib/resident/health.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import type { PolicyStatus } from "../../policy/model.ts";
import type { Drop, DropEnd } from "./drop.ts";

const PAUSE_MS = 600_000;
/** Pods and policies whose last event is remembered; beyond that the oldest is forgotten, and may come again early. */
const MOST_REMEMBERED = 1_000;
/** Events that wait for the server; further ones are left out. */
const MOST_WAITING = 50;
/** Limits what a node may ask of the server: an event each second. */
const BETWEEN_MS = 1_000;
/** A message of an event has 1,024 bytes at most (core/v1 validation of kube-apiserver), and a character of ours up to three. */
const MOST_MESSAGE = 340;
/** Of a name: DNS-1123 subdomain (253) less the point and the digest. */
const MOST_NAME = 253 - 1 - 16;
const FINDING = "policy-events";

export interface EventParts {
  readonly connection: Pick<ApiConnection, "exchange">;
  readonly node: string;
  /** @returns the uid of a pod of this node; `undefined`: it is gone. @param pod "namespace/name" */
  readonly uidOf: (pod: string) => string | undefined;
  readonly clock: Clock;
  readonly log: Pick<AgentLog, "debug">;
  readonly health: Pick<Health, "find">;
}

interface EventText {
  readonly kind: "Pod" | "NetworkPolicy";
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly reason: string;
  readonly message: string;
  /** The same text: the same event, whoever writes it. */
  readonly identity: string;
}

export class PolicyEvents implements AsyncDisposable {
  readonly #parts: EventParts;
  /** When the last event was written, by what it is about. */
  readonly #written = new Map<string, number>();
  readonly #waiting: EventText[] = [];
  readonly #ending = new AbortController();
  #sending: Promise<void> | undefined;

  constructor(parts: EventParts) {
    this.#parts = parts;
  }

  /** Tells of a drop at the pod whose policy dropped it. */
  dropped(drop: Drop): void {
    if (drop.reason !== "denied" || drop.pod === undefined) return;
    const key = [drop.pod, drop.direction, ...drop.policies].join(" ");
    if (!this.#isDue(key)) return;
    const uid = this.#parts.uidOf(drop.pod);
    if (uid === undefined) return;
    const window = Math.floor(this.#parts.clock.date().getTime() / PAUSE_MS);
    this.#send({
      ...{ kind: "Pod", ...named(drop.pod), uid, reason: "NetworkPolicyDrop" },
      message: dropMessage(drop),
      identity: `${uid} ${key} ${window}`,
    });
  }

  /** Tells of a policy that is invalid, at the policy. */
  invalid({ key, uid, resourceVersion, problem }: PolicyStatus): void {
    if (problem === undefined || !this.#isDue(`${key} ${resourceVersion}`)) return;
    this.#send({
      ...{ kind: "NetworkPolicy", ...named(key), uid, reason: "NetworkPolicyInvalid" },
      message: `it closes what it selects and opens nothing: ${problem}`,
      identity: `${uid} ${resourceVersion}`,
    });
  }

  /** Ends what waits. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#waiting.length = 0;
    this.#ending.abort();
    await this.#sending;
  }

  #isDue(key: string): boolean {
    const now = this.#parts.clock.now();
    if (now - (this.#written.get(key) ?? Number.NEGATIVE_INFINITY) < PAUSE_MS) return false;
    this.#written.delete(key);
    this.#written.set(key, now);
    const [oldest] = this.#written;
    if (this.#written.size > MOST_REMEMBERED && oldest !== undefined) this.#written.delete(oldest[0]);
    return true;
  }

  #send(event: EventText): void {
    if (this.#ending.signal.aborted || this.#waiting.length >= MOST_WAITING) return;
    this.#waiting.push(event);
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
  }

  async #sendAll(): Promise<void> {
    const { clock, log } = this.#parts;
    for (let event = this.#waiting.shift(); event !== undefined; event = this.#waiting.shift()) {
      try {
        await this.#write(event);
      } catch (error) {
        log.debug("an event was not written", { of: `${event.namespace}/${event.name}`, error: messageOf(error) });
      }
      await clock.sleep(BETWEEN_MS, this.#ending.signal);
    }
  }

  async #write(event: EventText): Promise<void> {
    const { connection, health } = this.#parts;
    const path = `/api/v1/namespaces/${encodeURIComponent(event.namespace)}/events`;
    const { status } = await connection.exchange({ method: "POST", path, body: JSON.stringify(this.#bodyOf(event)) });
    const isRefused = status === 403;
    health.find(FINDING, isRefused ? "the agent's account may not create events: drops are not told of at the pods" : undefined);
    // 409: another agent has written it. 404: the namespace is gone.
    if (status >= 400 && ![403, 404, 409].includes(status)) throw new Error(`the API server answered ${status}`);
  }

  #bodyOf({ kind, namespace, name, uid, reason, message, identity }: EventText) {
    const time = this.#parts.clock.date().toISOString();
    const digest = createHash("sha256").update(`${reason} ${identity}`).digest("hex").slice(0, 16);
    const apiVersion = kind === "Pod" ? "v1" : "networking.k8s.io/v1";
    return {
      apiVersion: "v1",
      kind: "Event",
      // What is cut may end in a point or a dash, which may not stand before a point.
      metadata: { name: `${name.slice(0, MOST_NAME).replace(/[-.]+$/, "")}.${digest}`, namespace },
      involvedObject: { apiVersion, kind, namespace, name, uid },
      type: "Warning",
      reason,
      message: excerpt(message, MOST_MESSAGE - 1),
      source: { component: "tortie-node", host: this.#parts.node },
      firstTimestamp: time,
      lastTimestamp: time,
      count: 1,
    };
  }
}

function named(key: string): { readonly namespace: string; readonly name: string } {
  const [namespace = "", name = ""] = key.split("/");
  return { namespace, name };
}

function dropMessage({ direction, protocol, source, destination, explanation }: Drop): string {
  const [what, other] = direction === "egress" ? ["to", destination] : ["from", source];
  const port = destination.port === undefined ? "" : ` port ${destination.port}`;
  return `${protocol}${port} ${what} ${endText(other)} was dropped: ${explanation}`;
}

function endText({ pod, address }: DropEnd): string {
  return pod === undefined ? address : `${pod} (${address})`;
}
