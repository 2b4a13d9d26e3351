/** Stands between a client and one member of etcd, on the level of TCP: watches are streams, and a network may break them or fall silent. */
import { connect, createServer, type Server, type Socket } from "node:net";

export class StreamProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  #isRefusing = false;
  #isSilent = false;
  /** Connections that clients have made. */
  connections = 0;

  private constructor(target: number) {
    this.#server = createServer((client) => this.#join(client, target));
  }

  /** @param target port of the member */
  static async start(target: number): Promise<StreamProxy> {
    const proxy = new StreamProxy(target);
    await new Promise<void>((done) => proxy.#server.listen(0, "127.0.0.1", done));
    return proxy;
  }

  get url(): string {
    const address = this.#server.address();
    return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
  }

  /** Breaks all connections, and those to come until `accept`. */
  refuse(): void {
    this.#isRefusing = true;
    for (const [client, member] of this.#pairs) {
      client.destroy();
      member.destroy();
    }
  }

  /** Nothing comes through any more, on any connection, and none is broken. */
  fallSilent(): void {
    this.#isSilent = true;
    for (const sockets of this.#pairs) for (const socket of sockets) socket.pause();
  }

  /** As at first, for connections that are made from now on: those that fell silent stay so. */
  accept(): void {
    this.#isRefusing = false;
    this.#isSilent = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.refuse();
    await new Promise((done) => this.#server.close(done));
  }

  #join(client: Socket, target: number): void {
    this.connections++;
    if (this.#isRefusing) return void client.destroy();
    const member = connect(target, "127.0.0.1");
    const pair = [client, member] as const;
    this.#pairs.add(pair);
    for (const [from, to] of [
      [client, member],
      [member, client],
    ] as const) {
      from.on("data", (chunk) => void to.write(chunk));
      from.on("error", () => to.destroy());
      from.on("close", () => {
        to.destroy();
        this.#pairs.delete(pair);
      });
    }
    if (this.#isSilent) for (const socket of pair) socket.pause();
  }
}
