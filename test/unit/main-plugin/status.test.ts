/** CNI STATUS: what makes a node NotReady, and what is only a line of the log (F3). */
import { DatastoreError, inTime } from "../../../lib/datastore/errors.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { fresh } from "../../support/fixtures.ts";
import { type PodCall, PodNode } from "../../support/pod-node.ts";

const node = fresh(PodNode.create);

const CLUSTER = "get cluster-information default";

describe("STATUS", () => {
  it("asks the cluster, then the IPAM plugin, and says nothing when all is well", async () => {
    await node.status();
    expect(node.effects[0]).toBe(CLUSTER);
    expect(node.effects).toContain("list pool");
    expect(node.errors).toEqual([]);
  });

  it.each<[string, () => unknown, string]>([
    ["pauses its datastore", () => node.setReady(false), "Calico is currently not ready to process requests"],
    [
      "cannot be asked",
      () => (node.failure = { effect: CLUSTER, error: new DatastoreError("unavailable", "connection refused") }),
      "error getting ClusterInformation: connection refused",
    ],
    [
      "refuses the token",
      () => (node.failure = { effect: CLUSTER, error: new DatastoreError("unauthorized", "forbidden") }),
      "error getting ClusterInformation: forbidden",
    ],
  ])("F3: of a cluster that %s is well, with a line in the log, and the IPAM plugin is not asked", async (_, arrange, message) => {
    await arrange();
    await node.status();
    expect(node.errors).toEqual([expect.stringContaining(`no ADD can be served now: ${message}`)]);
    expect(node.effects).toEqual([CLUSTER]);
  });

  it("F3: of a cluster that says nothing about itself is well, with a line in the log", async () => {
    const { clusterInformation } = node.datastore;
    await clusterInformation.delete("default", (await clusterInformation.get("default"))?.revision ?? "");
    await node.status();
    expect(node.errors).toEqual([expect.stringContaining("no ADD can be served now: ")]);
  });

  it.each<[string, PodCall, string]>([
    ["the configuration lacks what every ADD needs", { conf: { policy_setup_timeout_seconds: -1 } }, "configuration: "],
    ["CNI_PATH has no such IPAM plugin", { conf: { ipam: { type: "no-such-ipam" } } }, "IPAM plugin: "],
  ])("fails with code 50 when %s, before anybody is asked", async (_, call, message) => {
    await expect(node.status(call)).rejects.toMatchObject({
      word: "status-unavailable",
      code: 50,
      message: expect.stringContaining(message),
    });
    expect(node.effects).toEqual([]);
  });

  it("W11: names the cluster's silence in the log before the missing file with the node's name", async () => {
    node.failure = { effect: CLUSTER, error: new DatastoreError("unavailable", "connection refused") };
    const conf = { nodename_file_optional: false, nodename_file: "/nonexistent/nodename" };
    await expect(node.status({ conf })).rejects.toMatchObject({ word: "status-unavailable", message: expect.stringContaining("nodename") });
    expect(node.errors).toEqual([expect.stringContaining("connection refused")]);
  });

  it("fails with code 50 when the configuration names another dataplane", async () => {
    const conf = { dataplane_options: { type: "grpc", socket: "unix:///run/dataplane.sock" } };
    await expect(node.status({ conf })).rejects.toMatchObject({
      code: 50,
      message: expect.stringContaining('dataplane_options.type "grpc" is not supported'),
    });
  });

  it("fails with code 50 when this node's own credentials are unusable", async () => {
    node.failure = { effect: CLUSTER, error: new TortieError("credentials-failed", "it printed something that is not JSON") };
    await expect(node.status()).rejects.toMatchObject({ word: "status-unavailable", message: expect.stringContaining("datastore: ") });
  });

  it("fails with code 50 when the store of a node without cluster cannot be read", async () => {
    await using plain = PodNode.forContainers();
    plain.failure = { effect: CLUSTER, error: new DatastoreError("unavailable", "disk I/O error") };
    await expect(plain.status()).rejects.toMatchObject({
      word: "status-unavailable",
      message: expect.stringContaining("datastore: disk I/O error"),
    });
  });

  it("F3: of a node with a closed readiness gate is well, and names the gate in the log", async () => {
    await node.status({ conf: { readiness_gates: ["http://127.0.0.1:9/ready"] } });
    expect(node.errors).toEqual([expect.stringContaining("an ADD would have to wait: readiness gate http://127.0.0.1:9/ready")]);
    expect(node.effects).toContain("list pool");
  });
});

describe("a question whose answer is not waited for", () => {
  afterEach(() => jest.useRealTimers());

  it("is given up after two seconds as if nobody had answered", async () => {
    jest.useFakeTimers();
    let failed: unknown;
    const asking = inTime(new Promise(() => {})).catch((error: unknown) => {
      failed = error;
    });
    await jest.advanceTimersByTimeAsync(1_900);
    expect(failed).toBeUndefined();
    await jest.advanceTimersByTimeAsync(200);
    expect(failed).toMatchObject({ failure: "unavailable", message: "no answer within 2 s" });
    await asking;
  });
});
