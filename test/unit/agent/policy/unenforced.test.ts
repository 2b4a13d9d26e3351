/** When the agent says that nobody enforces policies, and what it says (docs/explanation/limitations.md). */

import { readFileSync } from "node:fs";
import { judge, type PolicyFacts, warnOfPolicies } from "../../../../agent/policy/unenforced.ts";
import { countOf } from "../../../../doctor/policy-objects.ts";
import { Health } from "../../../../lib/resident/health.ts";
import { Tasks } from "../../../../lib/resident/tasks.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { fresh } from "../../../support/fixtures.ts";

const list = (items: readonly unknown[], metadata: unknown = {}) => JSON.stringify({ kind: "NetworkPolicyList", metadata, items });

describe("An answer to the list of one network policy", () => {
  it.each<[string, string, number]>([
    ["counts none", list([]), 0],
    ["counts none where the server writes null", '{"metadata":{},"items":null}', 0],
    ["counts the one that is there", list([{}]), 1],
    ["adds those that remain", list([{}], { continue: "x", remainingItemCount: 41 }), 42],
    ["knows of one more where the server does not count", list([{}], { continue: "x" }), 2],
  ])("%s", (_title, body, atLeast) => {
    expect(countOf({ status: 200, body })).toEqual({ kind: "counted", atLeast });
  });

  it("is a missing right where it is refused, and a failure otherwise", () => {
    expect(countOf({ status: 403, body: "{}" })).toEqual({ kind: "refused" });
    expect(() => countOf({ status: 503, body: "" })).toThrow("the API server answered 503 when it was asked for network policies");
  });
});

describe("The judgement of network policies", () => {
  it.each<[PolicyFacts, "ok" | "warning", RegExp]>([
    [{ kind: "unknown" }, "ok", /^not looked for yet$/],
    [{ kind: "enforced", by: "Felix enforces" }, "ok", /^Felix enforces them on this node$/],
    [{ kind: "counted", atLeast: 0 }, "ok", /^there are none$/],
    [{ kind: "counted", atLeast: 1 }, "warning", /^there is at least 1 NetworkPolicy object, and nobody that Tortie knows of enforces/],
    [{ kind: "counted", atLeast: 7 }, "warning", /^there are at least 7 NetworkPolicy objects, and nobody that Tortie knows of enforces/],
    [{ kind: "refused" }, "warning", /may not list networkpolicies \(privilege-missing\)$/],
  ])("%j is %s", (facts, state, message) => {
    const result = judge(facts);
    expect(result).toMatchObject({ state, message: expect.stringMatching(message) });
    expect(result.next?.includes("--policy-warning=false")).toBe(state === "warning" ? true : undefined);
  });

  it("names a page that is there", () => {
    const { next = "" } = judge({ kind: "counted", atLeast: 1 });
    const [, page = "", anchor = ""] = /\((docs\/[^#)]+)#([^)]+)\)/.exec(next) ?? [];
    expect(readFileSync(page, "utf8").toLowerCase()).toContain(`\n## ${anchor}\n`);
  });
});

describe("The look at network policies", () => {
  /** An agent's parts, with what the server answers and whether Felix is there. */
  class World implements AsyncDisposable {
    readonly clock = new FakeClock();
    readonly health = new Health(() => "ready", this.clock);
    readonly #controllers = new Tasks({ clock: this.clock });
    readonly lines: string[] = [];
    asked = 0;
    hasFelix = false;
    status = 200;
    body = list([]);

    async start(): Promise<void> {
      const log = { info: (text: string) => this.lines.push(`info ${text}`), error: (text: string) => this.lines.push(`error ${text}`) };
      const exchange = async () => {
        this.asked++;
        return { status: this.status, body: this.body, contentType: "application/json", retryAfter: "", mayBeSecond: false };
      };
      const { health } = this;
      warnOfPolicies({
        connection: { exchange },
        enforcer: () => (this.hasFelix ? "Felix enforces" : undefined),
        controllers: this.#controllers,
        health,
        log,
      });
      await this.clock.advance(0);
    }

    get state(): string | undefined {
      return this.health.document().checks.find(({ name }) => name === "network-policy")?.state;
    }

    minutes(count: number): Promise<void> {
      return this.clock.advance(count * 60_000);
    }

    [Symbol.asyncDispose](): Promise<void> {
      return this.#controllers[Symbol.asyncDispose]();
    }
  }

  const world = fresh(() => new World());

  it("warns once in the log, however the count changes, and says when they are gone", async () => {
    world.body = list([{}]);
    await world.start();
    expect(world.state).toBe("warning");
    world.body = list([{}], { remainingItemCount: 3 });
    await world.minutes(10);
    expect(world.health.document().checks).toContainEqual(expect.objectContaining({ message: expect.stringContaining("at least 4 ") }));
    world.body = list([]);
    await world.minutes(10);

    expect(world.state).toBe("ok");
    expect(world.lines).toEqual([
      expect.stringMatching(/^error there is at least 1 NetworkPolicy object, .*: start the agent with --policy auto/),
      "info network policies: there are none",
    ]);
  });

  it("asks nothing where Felix is, and warns when it has gone", async () => {
    Object.assign(world, { hasFelix: true, body: list([{}]) });
    await world.start();
    expect([world.asked, world.state]).toEqual([0, "ok"]);
    world.hasFelix = false;
    await world.minutes(10);
    expect([world.asked, world.state]).toEqual([1, "warning"]);
  });

  it("takes its warning back a minute after Felix has started, without another question", async () => {
    world.body = list([{}]);
    await world.start();
    world.hasFelix = true;
    await world.minutes(1);
    expect([world.asked, world.state]).toEqual([1, "ok"]);
    expect(world.lines.at(-1)).toBe("info network policies: Felix enforces them on this node");
  });

  it("says a missing right once", async () => {
    world.status = 403;
    await world.start();
    await world.minutes(30);
    expect([world.asked, world.state]).toEqual([4, "warning"]);
    expect(world.lines).toEqual([expect.stringContaining("(privilege-missing): give it the right")]);
  });

  it("keeps its word while the server does not answer", async () => {
    world.body = list([{}]);
    await world.start();
    world.status = 503;
    await world.minutes(30);
    expect(world.state).toBe("warning");
    expect(world.lines).toHaveLength(1);
  });
});
