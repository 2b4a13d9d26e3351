/** A way of its own from a node to the API server, which can end in the middle of an operation as it does when the server's process ends. */

import type { ApiServerNode } from "../../../support/kubernetes/api-server-node.ts";
import { connectNode } from "../../../support/kubernetes/connect-node.ts";
import type { FaultProxy } from "../../../support/kubernetes/fault-proxy.ts";
import { endProcess } from "../../../support/kubernetes/process.ts";

export interface Stop {
  /** The request of the operation that is not answered any more, from 1. */
  readonly nth: number;
  /** Whether the server still does what that request asks. */
  readonly isDone: boolean;
}

/** The first request of an operation asks whether the cluster is ready. An ADD that takes more than a second asks again, which does not count. */
const COUNTED_AFTER_FIRST = /^(?!.*clusterinformations)/;

export class Way {
  readonly proxy: FaultProxy;
  readonly kubeconfig: string;
  readonly #listener: number;

  private constructor(proxy: FaultProxy, kubeconfig: string, listener: number) {
    this.proxy = proxy;
    this.kubeconfig = kubeconfig;
    this.#listener = listener;
  }

  /** It ends with the node and the cluster. */
  static async open({ cluster, node }: ApiServerNode): Promise<Way> {
    const proxy = await cluster.proxy();
    return new Way(proxy, await proxy.kubeconfigFor("cni"), await connectNode(node, proxy));
  }

  /** From a request on nobody answers, and new connections are refused. */
  stopAt({ nth, isDone }: Stop): this {
    // The operation's one connection stays when the listener goes, until the request has come.
    if (nth === 1) return this.#stop(1, () => this.proxy.breakConnections());
    this.#stop(1, () => undefined).proxy.on({ nth: nth - 1, path: COUNTED_AFTER_FIRST }, { kind: isDone ? "lose-answer" : "cut" });
    return this;
  }

  /** Nobody can connect any more; a connection that is open stays. */
  close(): Promise<void> {
    return endProcess(this.#listener);
  }

  #stop(nth: number, then: () => void): this {
    this.proxy.on({ nth }, { kind: "before", action: () => this.close().then(then) });
    return this;
  }
}
