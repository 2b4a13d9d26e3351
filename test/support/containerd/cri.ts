/** The kubelet's side of the Container Runtime Interface, as far as the tests need it: field numbers of k8s.io/cri-api v1, api.proto. */
import { callGrpc } from "./grpc.ts";
import { type Decoded, type Message, messageOf, numberOf, textOf } from "./protobuf.ts";

export interface PodSpec {
  readonly name: string;
  readonly namespace?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly portMappings?: readonly { readonly hostPort: number; readonly containerPort: number }[];
  /** What its one container runs. */
  readonly command: readonly string[];
}

export interface CriPod {
  readonly id: string;
  readonly container: string;
  /** First address, as containerd read it from the result of the ADD. */
  readonly ip: string;
}

const LIMIT_MS = 60_000;

export class Cri {
  readonly #socket: string;
  readonly #image: string;

  constructor(socket: string, image: string) {
    this.#socket = socket;
    this.#image = image;
  }

  /** Runs a pod with one container. */
  async runPod(spec: PodSpec): Promise<CriPod> {
    const config = sandboxConfig(spec);
    const id = textOf(await this.#call("RunPodSandbox", { 1: config }), 1);
    const container = { 1: { 1: "main" }, 2: { 1: this.#image }, 3: [...spec.command], 15: {} };
    const created = textOf(await this.#call("CreateContainer", { 1: id, 2: container, 3: config }), 1);
    await this.#call("StartContainer", { 1: created });
    const status = messageOf(await this.#call("PodSandboxStatus", { 1: id }), 1);
    return { id, container: created, ip: textOf(messageOf(status, 5), 1) };
  }

  async exec(pod: CriPod, ...command: string[]): Promise<{ readonly exit: number; readonly stdout: string; readonly stderr: string }> {
    const answer = await this.#call("ExecSync", { 1: pod.container, 2: command, 3: 30 });
    return { stdout: textOf(answer, 1), stderr: textOf(answer, 2), exit: numberOf(answer, 3) };
  }

  /** May be repeated, as kubelet does. */
  async stopPod(pod: CriPod): Promise<void> {
    await this.#call("StopPodSandbox", { 1: pod.id });
  }

  async removePod(pod: CriPod): Promise<void> {
    await this.#call("RemovePodSandbox", { 1: pod.id });
  }

  #call(method: string, request: Message): Promise<Decoded> {
    return callGrpc(this.#socket, `/runtime.v1.RuntimeService/${method}`, request, LIMIT_MS);
  }
}

function sandboxConfig(spec: PodSpec): Message {
  const { name, namespace = "default", annotations = {}, portMappings = [] } = spec;
  return {
    1: { 1: name, 2: `uid-${name}`, 3: namespace },
    2: name,
    5: portMappings.map(({ hostPort, containerPort }) => ({ 2: containerPort, 3: hostPort })),
    7: Object.entries(annotations).map(([key, value]) => ({ 1: key, 2: value })),
    8: { 1: `/${name}` },
  };
}
