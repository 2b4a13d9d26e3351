/** The gRPC dataplane (C§4.6) with a real server under Node: rows N9 and N10 of the contract, and answers that nobody would wish for. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { localConf, podArgs } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { type JsonRecord, Node, type Pod } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

/** Of the operating system: in a test `node` may be Bun by another name. */
const NODE_PROGRAM = ["/usr/local/bin/node", "/usr/bin/node"].find(existsSync) ?? "node";
const SERVER = join(import.meta.dirname, "../../support/programs/dataplane-server.cjs");

class Sandbox implements AsyncDisposable {
  readonly node: Node;
  readonly pod: Pod;
  readonly socket: string;
  readonly #log: string;
  #server: ChildProcess | undefined;

  private constructor(node: Node, pod: Pod) {
    this.node = node;
    this.pod = pod;
    this.socket = `unix://${node.dir}/dataplane.sock`;
    this.#log = `${node.dir}/dataplane.log`;
  }

  static async create(): Promise<Sandbox> {
    const node = await Node.create();
    return new Sandbox(node, await node.addPod());
  }

  async startServer(target = this.socket): Promise<void> {
    const server = spawn(NODE_PROGRAM, [SERVER, target, this.#log], { stdio: ["ignore", "pipe", "inherit"], env: {} });
    this.#server = server;
    await new Promise<void>((ready, failed) => {
      server.stdout?.once("data", () => ready());
      server.once("exit", (code) => failed(new Error(`the server ended with ${code}`)));
    });
  }

  conf(options: Readonly<Record<string, string>> = {}): Record<string, unknown> {
    return localConf(this.node, {
      mtu: 1400,
      container_settings: { allow_ip_forwarding: true },
      dataplane_options: { type: "grpc", socket: this.socket, extra: "extra", ...options },
    });
  }

  cni(command: "ADD" | "DEL" | "CHECK", options: Readonly<Record<string, string>> = {}, change: Readonly<Record<string, unknown>> = {}) {
    return this.node.cni(command, { pod: this.pod, conf: { ...this.conf(options), ...change }, args: podArgs("web") });
  }

  requests(): readonly { readonly method: string; readonly request: JsonRecord }[] {
    const lines = existsSync(this.#log) ? readFileSync(this.#log, "utf8").split("\n") : [];
    return lines.filter((line) => line !== "").map((line) => JSON.parse(line));
  }

  methods(): readonly string[] {
    return this.requests().map(({ method }) => method);
  }

  /** Handles and endpoints that the store holds. */
  async held(): Promise<readonly string[]> {
    const { handles, endpoints } = await readStore(this.node);
    return [...handles.map(({ id }) => id), ...endpoints.map(({ name }) => name)];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server?.removeAllListeners("exit");
    this.#server?.kill("SIGKILL");
    rmSync(this.#log, { force: true });
    await this.node[Symbol.asyncDispose]();
  }
}

const sandbox = fresh(Sandbox.create);

describe("the gRPC dataplane", () => {
  it("N10: is told of namespace, addresses, workload and options, and its names go into result and record", async () => {
    await sandbox.startServer();
    const added = await sandbox.cni("ADD");
    expect(added).toMatchObject({ exit: 0 });

    const [seen] = sandbox.requests();
    const { netnsPath: path } = sandbox.pod;
    expect(seen).toMatchObject({
      method: "Add",
      request: {
        interface_name: "eth0",
        netns: path,
        desired_host_interface_name: expect.stringMatching(/^cali[0-9a-f]{11}$/),
        settings: { allow_ip_forwarding: true, mtu: 1400 },
        container_ips: [{ address: expect.stringMatching(/^10\.244\.\d+\.\d+\/\d+$/), gateway: "<nil>" }],
        container_routes: ["0.0.0.0/0", "::/0"],
        workload: {
          name: "node1-k8s-web-eth0",
          namespace: "default",
          labels: { "projectcalico.org/namespace": "default", "projectcalico.org/orchestrator": "k8s" },
          endpoint: "eth0",
          node: "node1",
          orchestrator: "k8s",
          pod: "web",
        },
        dataplane_options: { type: "grpc", socket: sandbox.socket, extra: "extra" },
      },
    });
    expect(added.json).toMatchObject({ interfaces: [{ name: "tap7" }, { name: "eth0", mac: "02:00:5e:10:00:07", sandbox: path }] });
    const [endpoint] = (await readStore(sandbox.node)).endpoints;
    expect(endpoint).toMatchObject({ interfaceName: "tap7", mac: "02:00:5e:10:00:07" });

    // What the other program builds is not ours to judge; addresses and record are.
    expect(await sandbox.cni("CHECK", {}, { prevResult: added.json, cniVersion: "1.0.0" })).toMatchObject({ exit: 0 });

    expect(await sandbox.cni("DEL", { del_answer: "refuse" })).toMatchObject({
      exit: 1,
      stdout: expect.stringContaining("grpc dataplane error: no room in the switch"),
    });
    // The record is cleared; the address stays until the link that carries it is gone.
    expect(await sandbox.held()).toEqual(["net1.cid1"]);
    expect(await sandbox.cni("DEL")).toMatchObject({ exit: 0 });
    expect(await sandbox.held()).toEqual([]);
    expect(sandbox.requests().at(-1)).toMatchObject({
      method: "Del",
      request: { interface_name: "eth0", netns: path, dataplane_options: { extra: "extra" } },
    });
    expect(await sandbox.cni("DEL")).toMatchObject({ exit: 0 });
  });

  it("N10: fails the ADD that the server refuses, and keeps nothing", async () => {
    await sandbox.startServer();
    expect(await sandbox.cni("ADD", { answer: "refuse" })).toMatchObject({
      exit: 1,
      stdout: expect.stringMatching(/grpc dataplane error: no room in the switch.*dataplane-failed: /s),
    });
    expect(await sandbox.held()).toEqual([]);
  });

  it("N9: fails ADD and DEL when nothing listens at the socket", async () => {
    for (const verb of ["ADD", "DEL"] as const) {
      expect(await sandbox.cni(verb)).toMatchObject({
        exit: 1,
        stdout: expect.stringMatching(/code = Unavailable.*dataplane-unreachable: /s),
      });
    }
    expect(await sandbox.held()).toEqual([]);
  });

  it.each([
    ["a MAC that is none", "bad-mac", "dataplane-answer-invalid", "container_mac"],
    ["no MAC", "no-mac", "dataplane-answer-invalid", "container_mac"],
    ["a multicast MAC", "multicast-mac", "dataplane-answer-invalid", "container_mac"],
    ["a path for the host interface", "bad-name", "dataplane-answer-invalid", "host_interface_name"],
    ["a reply of a megabyte", "huge", "dataplane-answer-invalid", "ResourceExhausted"],
    ["bytes that are no message", "garbage", "dataplane-answer-invalid", "rpc error"],
    ["nothing", "hang", "dataplane-timeout", "DeadlineExceeded"],
  ])("gives addresses back and sends Del when the server answers %s", async (_, answer, word, text) => {
    await sandbox.startServer();
    const refused = await sandbox.cni("ADD", { answer });
    expect(refused).toMatchObject({ exit: 1, stdout: expect.stringContaining(`${word}: `) });
    expect(refused.stdout).toContain(text);
    expect(refused.stdout.length).toBeLessThan(5_000);
    expect(sandbox.methods()).toEqual(["Add", "Del"]);
    expect(await sandbox.held()).toEqual([]);
  });

  it("names gRPC's own refusals", async () => {
    await sandbox.startServer();
    expect(await sandbox.cni("ADD", { answer: "error" })).toMatchObject({
      exit: 1,
      stdout: expect.stringMatching(/rpc error: code = PermissionDenied desc = .*not for you.*dataplane-failed: /s),
    });
  });

  it("keeps the name that was desired when the server gives none", async () => {
    await sandbox.startServer();
    const { json } = await sandbox.cni("ADD", { answer: "plain" });
    expect(json).toMatchObject({ interfaces: [{ name: sandbox.requests()[0]?.request.desired_host_interface_name }, { name: "eth0" }] });
  });

  it("is refused without a socket before anything is taken", async () => {
    const conf = { dataplane_options: { type: "grpc" } };
    expect(await sandbox.cni("ADD", {}, conf)).toMatchObject({ exit: 1, stdout: expect.stringContaining("dataplane_options.socket") });
  });
});
