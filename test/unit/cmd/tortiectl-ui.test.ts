/** The server of the page without a browser: which commands it runs, what it refuses, how often it asks. */

import type { Terminal } from "../../../cmd/tortiectl/terminal.ts";
import { answerText } from "../../../cmd/tortiectl/ui/answers.ts";
import { Live } from "../../../cmd/tortiectl/ui/live.ts";
import { lineOf, type Sources, shellText } from "../../../cmd/tortiectl/ui/questions.ts";
import { buildPage } from "../../../cmd/tortiectl/ui/server.ts";

const NODE: Sources = { scope: "node", agent: ["--socket=/run/a.sock"], store: ["--datastore=/tmp/a.db"] };
const CLUSTER: Sources = { scope: "cluster", kubeconfig: "/root/.kube/config" };
const TOKEN = "correct-token";

describe("a question of the page", () => {
  it("is a command line", () => {
    expect(shellText(lineOf("address", { ip: "10.0.0.1" }, NODE))).toBe("tortiectl ipam show --ip 10.0.0.1 --datastore=/tmp/a.db --json");
    expect(shellText(lineOf("pods", {}, CLUSTER))).toBe("kubectl tortie endpoints --all-namespaces --kubeconfig=/root/.kube/config --json");
    expect(shellText(lineOf("drops", { endpoint: "it's" }, NODE))).toBe("tortiectl policy drops 'it'\\''s' --socket=/run/a.sock --json");
  });

  it.each(["--socket=/tmp/x", "-h", "", "a\nb", "a\u0000b", "x".repeat(601), 5, undefined, ["a", "b"]])(
    "cannot be made an option or a second line: %p",
    (ip) => {
      expect(() => lineOf("address", { ip }, NODE)).toThrow(expect.objectContaining({ word: "call-invalid" }));
    },
  );

  it("is one of those there are, for what the page is about", () => {
    for (const [name, sources] of [
      ["release", NODE],
      ["__proto__", NODE],
      ["pods", NODE],
      ["routes", CLUSTER],
    ] as const) {
      expect(() => lineOf(name, {}, sources)).toThrow(expect.objectContaining({ word: "operation-unknown" }));
    }
  });

  it("is answered by what the command prints, digit by digit", async () => {
    const run = async (_line: unknown, terminal: Terminal) => {
      terminal.out('{\n  "size": 1208925819614629174706176,\n  "text": "a\\n  b"\n}');
      terminal.err("note: something");
      return 1;
    };
    expect(await answerText(run, { program: "tortiectl", words: ["version"] })).toBe(
      '{"command":"tortiectl version","status":1,"notes":["note: something"],"answer":{"size": 1208925819614629174706176,"text": "a\\n  b"}}',
    );
  });

  it("is told as an error where the command prints no JSON", async () => {
    const found = JSON.parse(await answerText(async () => 1, { program: "tortiectl", words: [] }));
    expect(found.answer.error).toMatchObject({ word: "internal", message: expect.stringContaining("no JSON") });
  });
});

describe("the server", () => {
  const build = () =>
    buildPage({
      token: TOKEN,
      port: 0,
      about: { version: "0", host: "h", scope: "node" },
      assets: { "": { type: "text/html", text: "page" } },
      sources: NODE,
      run: async (_line, terminal) => {
        terminal.out("{}");
        return 0;
      },
    });
  const get = async (url: string, host = "127.0.0.1:80") => (await build().inject({ url, headers: { host } })).statusCode;

  it("serves whoever knows the token, under a name of this machine", async () => {
    expect(await get(`/${TOKEN}/`)).toBe(200);
    expect(await get(`/${TOKEN}/ask/status`, "localhost")).toBe(200);
    for (const url of ["/", "/wrong-token-1/", `/${TOKEN}x/`, `/x${TOKEN}/`, `//${TOKEN}/`, `/?${TOKEN}`, "/%zz"])
      expect([url, await get(url)]).toEqual([url, 401]);
    for (const host of ["evil.example", "127.0.0.1.evil.example", "127.0.0.2"])
      expect([host, await get(`/${TOKEN}/`, host)]).toEqual([host, 403]);
  });
});

describe("what comes by itself", () => {
  it("is asked while somebody listens, and told when it changes", async () => {
    const answers = ["a", "a", "b", "b"];
    const heard: string[] = [];
    let asked = 0;
    const done = Promise.withResolvers<void>();
    const live = new Live(["status"], async () => answers[asked++] ?? "b", {
      sleep: async () => {
        if (asked >= answers.length) done.resolve();
        await Bun.sleep(1);
      },
    });
    const leave = live.follow((name, text) => heard.push(`${name} ${text}`));
    await done.promise;
    leave();
    const before = asked;
    await Bun.sleep(20);

    expect(heard).toEqual(["status a", "status b"]);
    expect(asked - before).toBeLessThanOrEqual(1);
  });
});
