/** Callers that hold connections without a use for them: a real agent closes them, and goes on answering. */
import { connect } from "node:net";
import { Agent } from "../../support/agent.ts";
import { GROUP, HAS_OTHER_USERS, withSocketGroup } from "../../support/agent-as-user.ts";
import { Node } from "../../support/node.ts";

/** As many as one user may have. */
const LIMIT = 64;

/** Sends the text's beginning, then one more byte each second. @returns when the agent ends the connection */
function drip(path: string, beginning: string): Promise<void> {
  return new Promise((done) => {
    const socket = connect(path, () => socket.write(beginning));
    const timer = setInterval(() => socket.write("x"), 1_000);
    socket.on("error", () => undefined);
    socket.on("close", () => {
      clearInterval(timer);
      done();
    });
  });
}

describe("Half a request", () => {
  it.concurrent("S6: is not waited for: silent, in its head, and in its body", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node);
    const { socket, calls } = agent;
    const head = "PUT /v1/endpoint/0 HTTP/1.1\r\nHost: agent\r\nContent-Type: application/json\r\n";
    // The test's own limit ends it where the agent does not.
    await Promise.all([drip(socket, ""), drip(socket, head), drip(socket, `${head}Content-Length: 1000\r\n\r\n{`)]);
    await Promise.all([drip(calls, ""), drip(calls, "TCNI"), drip(calls, `TCNI\x01\0\0\0${"\0".repeat(12)}\xff`)]);
    expect(await agent.request("GET", "/config")).toMatchObject({ status: 200 });
  });
});

/** Opens as many connections as it is told, says nothing, and prints how many stay open once no more are left than it may have. */
const HOLDER = `
import socket, sys, select
held = []
for _ in range(int(sys.argv[2])):
    one = socket.socket(socket.AF_UNIX)
    one.connect(sys.argv[1])
    held.append(one)
held[-1].settimeout(60)
while True:
    ready = select.select(held, [], [], 1 if len(held) <= int(sys.argv[3]) else 60)[0]
    if not ready: break
    for one in ready:
        one.close(); held.remove(one)
print(len(held))
`;

describe("A reader", () => {
  (HAS_OTHER_USERS ? it.concurrent : it.skip)("S6: holds no more connections than one may have, and root is served meanwhile", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node, withSocketGroup(node));
    const reader = ["/usr/bin/setpriv", "--reuid", "12345", "--regid", "12345", "--groups", String(GROUP), "--"];

    const holding = node.run([...reader, "/usr/bin/python3", "-c", HOLDER, agent.socket, String(LIMIT + 20), String(LIMIT)]);
    const answers = await Promise.all(Array.from({ length: 10 }, () => agent.request("GET", "/config")));

    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
    const { stdout, stderr } = await holding;
    expect([stderr, Number(stdout)]).toEqual(["", LIMIT]);
  });
});
