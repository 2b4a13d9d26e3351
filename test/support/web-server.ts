/** A web server on this machine that answers as a test says; ends with the test. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { ending } from "./fixtures.ts";

interface WebServer {
  /** Its root, without a slash at the end. */
  readonly url: string;
  /** Path of each request, in their order. */
  readonly asked: readonly string[];
}

/** For a test with a fixture, which ends it. */
export async function serveWeb(answer: RequestListener): Promise<WebServer> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return ending({
    url: `http://127.0.0.1:${port}`,
    asked,
    [Symbol.dispose]() {
      server.closeAllConnections();
      server.close();
    },
  });
}
