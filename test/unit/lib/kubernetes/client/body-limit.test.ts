/** Bodies that are larger than anything that was asked for: they are given up while they are read, whatever stands between. */
import { Transport } from "../../../../../lib/kubernetes/client/transport.ts";
import { apiConfigFor, serve } from "../../../../support/api-behind-tls.ts";
import { closing } from "../../../../support/closing.ts";
import { ConnectProxy } from "../../../../support/connect-proxy.ts";
import type { Reply } from "../../../../support/tls-server.ts";

const LIMIT = 100_000;
const REQUEST = { method: "GET", target: "/", headers: [], body: undefined, isRepeatable: true } as const;

const sized = (length: number): Reply => ({ status: 200, body: "x".repeat(length) });
const chunked = (length: number) => ({
  raw: `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${`3e8\r\n${"x".repeat(1000)}\r\n`.repeat(length / 1000)}0\r\n\r\n`,
});
const endless = (length: number): Reply => ({ raw: `HTTP/1.1 200 OK\r\n\r\n${"x".repeat(length)}`, close: true });

describe.each(["directly", "through a proxy"])("L11: a body that is read %s", (way) => {
  async function read(reply: Reply): Promise<string> {
    const server = serve(() => reply);
    const proxy = closing(await new ConnectProxy().start());
    const config = apiConfigFor(server, way === "directly" ? {} : { proxy: `http://127.0.0.1:${proxy.port}` });
    const transport = closing(new Transport(config, undefined, LIMIT));
    return (await transport.exchange(REQUEST, 10_000)).body;
  }

  it("is counted although a length is named that does not count", async () => {
    const { raw } = chunked(LIMIT + 1000);

    await expect(read({ raw: raw.replace("Transfer-Encoding", "Content-Length: 5\r\nTransfer-Encoding") })).rejects.toMatchObject({
      failure: expect.stringMatching(/not-understood|broken/),
    });
  });

  it.each([
    ["a length", sized],
    ["chunks", chunked],
    ["the end of the connection", endless],
  ])("ends by %s, and within the limit", async (_what, reply) => {
    expect(await read(reply(LIMIT))).toHaveLength(LIMIT);
    await expect(read(reply(LIMIT + 1000))).rejects.toMatchObject({
      failure: "not-understood",
      message: "the answer is not understood: its body is larger than 100000 bytes",
    });
  });
});
