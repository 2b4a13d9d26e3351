/** An API server that takes Kubernetes events as a test says, and an agent's writer of them. */
import { EventWriter } from "../../agent/observe/events.ts";
import { Health } from "../../lib/resident/health.ts";
import { FakeClock } from "./fake-clock.ts";

interface Written {
  readonly method: string;
  readonly path: string;
  readonly body: Record<string, unknown> & { readonly message: string; readonly metadata: { readonly name: string } };
}

export class EventServer {
  readonly clock = new FakeClock();
  readonly health = new Health(() => "ready", this.clock);
  /** Every request, whatever it was answered. */
  readonly requests: Written[] = [];
  /** Of the agent's log. */
  readonly lines: string[] = [];
  status: (method: string) => number = () => 201;
  readonly writer = new EventWriter({
    connection: {
      exchange: async ({ method, path, body = "" }) => {
        this.requests.push({ method, path, body: JSON.parse(body) });
        return { status: this.status(method), body: "", contentType: "", retryAfter: "", mayBeSecond: false };
      },
    },
    node: "node-a",
    clock: this.clock,
    log: { debug: (text) => void this.lines.push(text) },
    health: this.health,
  });
}
