import { connect, createServer, type Server, type Socket } from "node:net";

/** An HTTP proxy that knows CONNECT and nothing else; `seen` has the heads of the requests it got. */
export class ConnectProxy {
  readonly seen: string[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  port = 0;

  constructor(status = "200 Connection established") {
    this.#server = createServer((client) => {
      this.#sockets.add(client);
      client.on("error", () => {});
      client.once("data", (bytes) => {
        const head = bytes.toString();
        this.seen.push(head);
        const target = /^CONNECT 127\.0\.0\.1:(\d+) /.exec(head)?.[1];
        if (target === undefined || !status.startsWith("200")) {
          client.end(`HTTP/1.1 ${status}\r\n\r\n`);
          return;
        }
        const server = connect(Number(target), "127.0.0.1", () => client.write(`HTTP/1.1 ${status}\r\n\r\n`));
        this.#sockets.add(server);
        server.on("error", () => client.destroy());
        client.pipe(server).pipe(client);
      });
    });
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const address = this.#server.address();
    if (address !== null && typeof address === "object") this.port = address.port;
    return this;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}
