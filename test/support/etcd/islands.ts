/**
 * Three network namespaces for members of etcd: the members see each other over one network, and the tests see each member over a
 * network of its own. So a member can be cut off from the others while its clients still reach it.
 */
import { execFileSync } from "node:child_process";
import type { MemberPlace } from "./etcd.ts";

const COUNT = 3;

export class Islands implements Disposable {
  readonly places: readonly MemberPlace[];
  readonly #bridge: string;

  constructor() {
    const id = `${process.pid % 10_000}`;
    this.#bridge = `eb${id}`;
    ip("link", "add", this.#bridge, "type", "bridge");
    ip("link", "set", this.#bridge, "up");
    this.places = Array.from({ length: COUNT }, (_, number) => {
      const namespace = `etcd-${process.pid}-${number}`;
      ip("netns", "add", namespace);
      ip("-n", namespace, "link", "set", "lo", "up");
      ip("link", "add", `ep${id}-${number}`, "type", "veth", "peer", "name", "peers", "netns", namespace);
      ip("link", "set", `ep${id}-${number}`, "master", this.#bridge, "up");
      ip("link", "add", `ec${id}-${number}`, "type", "veth", "peer", "name", "clients", "netns", namespace);
      ip("address", "add", `10.209.${number}.1/30`, "dev", `ec${id}-${number}`);
      ip("link", "set", `ec${id}-${number}`, "up");
      ip("-n", namespace, "address", "add", `10.209.${number}.2/30`, "dev", "clients");
      ip("-n", namespace, "address", "add", `10.209.100.${number + 1}/24`, "dev", "peers");
      for (const link of ["clients", "peers"]) ip("-n", namespace, "link", "set", link, "up");
      return { namespace, client: `10.209.${number}.2`, peer: `10.209.100.${number + 1}` };
    });
  }

  /** The member neither hears of the others nor is heard. */
  cutOff(number: number): void {
    ip("-n", this.#namespace(number), "link", "set", "peers", "down");
  }

  rejoin(number: number): void {
    ip("-n", this.#namespace(number), "link", "set", "peers", "up");
  }

  [Symbol.dispose](): void {
    for (const { namespace } of this.places) ip("netns", "del", namespace);
    ip("link", "del", this.#bridge);
  }

  #namespace(number: number): string {
    return this.places[number]?.namespace ?? "";
  }
}

function ip(...args: readonly string[]): void {
  execFileSync("/usr/sbin/ip", args, { stdio: ["ignore", "ignore", "pipe"] });
}
