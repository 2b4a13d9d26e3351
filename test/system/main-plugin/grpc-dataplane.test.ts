/** The gRPC dataplane (C§4.6) with a real server under Node: rows N9 and N10 of the contract, and answers that nobody would wish for. */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { localConf, podArgs } from "../../support/conf.ts";
import { ending, fresh } from "../../support/fixtures.ts";
import { type JsonRecord, Node } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

/** Of the operating system: in a test `node` may be Bun by another name. */
const NODE_PROGRAM = ["/usr/local/bin/node", "/usr/bin/node"].find(existsSync) ?? "node";
const SERVER = join(import.meta.dirname, "../../support/programs/dataplane-server.cjs");

const node = fresh(Node.create);
const pod = fresh(() => node.addPod());
const socket = () => `unix://${node.dir}/dataplane.sock`;
const log = () => `${node.dir}/dataplane.log`;

async function startServer(): Promise<void> {
  const server = spawn(NODE_PROGRAM, [SERVER, socket(), log()], { stdio: ["ignore", "pipe", "inherit"], env: {} });
  await new Promise<void>((ready, failed) => {
    server.stdout.once("data", () => ready());
    server.once("exit", (code) => failed(new Error(`the server ended with ${code}`)));
  });
  ending({ [Symbol.dispose]: () => void server.kill("SIGKILL") });
}

function cni(
  command: "ADD" | "DEL" | "CHECK",
  options: Readonly<Record<string, string>> = {},
  change: Readonly<Record<string, unknown>> = {},
) {
  const conf = localConf(node, {
    mtu: 1400,
    container_settings: { allow_ip_forwarding: true },
    dataplane_options: { type: "grpc", socket: socket(), extra: "extra", ...options },
    ...change,
  });
  return node.cni(command, { pod, conf, args: podArgs("web") });
}

function requests(): readonly { readonly method: string; readonly request: JsonRecord }[] {
  const lines = existsSync(log()) ? readFileSync(log(), "utf8").split("\n") : [];
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line));
}

/** Handles and endpoints that the store holds. */
async function held(): Promise<readonly string[]> {
  const { handles, endpoints } = await readStore(node);
  return [...handles.map(({ id }) => id), ...endpoints.map(({ name }) => name)];
}

describe("the gRPC dataplane", () => {
  it("N10: is told of namespace, addresses, workload and options, and its names go into result and record", async () => {
    await startServer();
    const added = await cni("ADD");
    expect(added).toMatchObject({ exit: 0 });

    const [seen] = requests();
    const { netnsPath: path } = pod;
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
        dataplane_options: { type: "grpc", socket: socket(), extra: "extra" },
      },
    });
    expect(added.json).toMatchObject({ interfaces: [{ name: "tap7" }, { name: "eth0", mac: "02:00:5e:10:00:07", sandbox: path }] });
    const [endpoint] = (await readStore(node)).endpoints;
    expect(endpoint).toMatchObject({ interfaceName: "tap7", mac: "02:00:5e:10:00:07" });

    // What the other program builds is not ours to judge; addresses and record are.
    expect(await cni("CHECK", {}, { prevResult: added.json, cniVersion: "1.0.0" })).toMatchObject({ exit: 0 });

    expect(await cni("DEL", { del_answer: "refuse" })).toMatchObject({
      exit: 1,
      stdout: expect.stringContaining("grpc dataplane error: no room in the switch"),
    });
    // The record is cleared; the address stays until the link that carries it is gone.
    expect(await held()).toEqual(["net1.cid1"]);
    expect(await cni("DEL")).toMatchObject({ exit: 0 });
    expect(await held()).toEqual([]);
    expect(requests().at(-1)).toMatchObject({
      method: "Del",
      request: { interface_name: "eth0", netns: path, dataplane_options: { extra: "extra" } },
    });
    expect(await cni("DEL")).toMatchObject({ exit: 0 });
  });

  it("N10: fails the ADD that the server refuses, and keeps nothing", async () => {
    await startServer();
    expect(await cni("ADD", { answer: "refuse" })).toMatchObject({
      exit: 1,
      stdout: expect.stringMatching(/grpc dataplane error: no room in the switch.*dataplane-failed: /s),
    });
    expect(await held()).toEqual([]);
  });

  it("N9: fails ADD and DEL when nothing listens at the socket", async () => {
    for (const verb of ["ADD", "DEL"] as const) {
      expect(await cni(verb)).toMatchObject({
        exit: 1,
        stdout: expect.stringMatching(/code = Unavailable.*dataplane-unreachable: /s),
      });
    }
    expect(await held()).toEqual([]);
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
    await startServer();
    const refused = await cni("ADD", { answer });
    expect(refused).toMatchObject({ exit: 1, stdout: expect.stringContaining(`${word}: `) });
    expect(refused.stdout).toContain(text);
    expect(refused.stdout.length).toBeLessThan(5_000);
    expect(requests().map(({ method }) => method)).toEqual(["Add", "Del"]);
    expect(await held()).toEqual([]);
  });

  it("names gRPC's own refusals", async () => {
    await startServer();
    expect(await cni("ADD", { answer: "error" })).toMatchObject({
      exit: 1,
      stdout: expect.stringMatching(/rpc error: code = PermissionDenied desc = .*not for you.*dataplane-failed: /s),
    });
  });

  it("keeps the name that was desired when the server gives none", async () => {
    await startServer();
    const { json } = await cni("ADD", { answer: "plain" });
    expect(json).toMatchObject({ interfaces: [{ name: requests()[0]?.request.desired_host_interface_name }, { name: "eth0" }] });
  });

  it("is refused without a socket before anything is taken", async () => {
    const conf = { dataplane_options: { type: "grpc" } };
    expect(await cni("ADD", {}, conf)).toMatchObject({ exit: 1, stdout: expect.stringContaining("dataplane_options.socket") });
  });
});
