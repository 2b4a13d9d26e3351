/** The agent's figures, as Prometheus and the API read them (A§8.2). */
import { AgentMetrics } from "../../../../agent/observe/metrics.ts";
import type { PolicyFigureSource } from "../../../../agent/observe/policy-metrics.ts";
import { fresh } from "../../../support/fixtures.ts";

const metrics = fresh(() => new AgentMetrics());

describe("the agent's figures", () => {
  it("are counted by its parts", async () => {
    metrics.controllerRan({ name: "a", outcome: "failure", seconds: 2, quiet: true, failures: 1 });
    metrics.apiAnswered("/cni/add", "POST", 200, 12);
    metrics.cniTook("add", "total", 12);
    metrics.built("total", "success", 3);
    metrics.waitedInQueue("build", 1);
    metrics.ipamEvent("allocate", 6);
    metrics.blockWritten("written", 12);
    metrics.restored("restored", 110);
    metrics.sweepFound("endpoint-without-link");
    metrics.asked("GET", 200);
    const text = await metrics.text();
    for (const line of [
      'tortie_controllers_runs_total{status="failure"} 1',
      'tortie_api_process_time_seconds_count{path="/cni/add",method="POST",return_code="200"} 1',
      'tortie_cni_seconds_sum{verb="add",step="total"} 0.012',
      'tortie_endpoint_regenerations{outcome="success"} 1',
      'tortie_events_queue_seconds_count{event="build"} 1',
      'tortie_ipam_events_total{action="allocate",family="ipv6"} 1',
      "tortie_ipam_batch_size_sum 12",
      'tortie_ipam_block_writes_total{outcome="written"} 1',
      'tortie_restore_endpoints{outcome="restored"} 110',
      'tortie_sweep_findings_total{kind="endpoint-without-link"} 1',
      'tortie_kubernetes_requests_total{method="GET",status="200"} 1',
    ]) {
      expect(text).toContain(`${line}\n`);
    }
  });

  it("are sampled when somebody reads, and what is gone is gone", async () => {
    let states = ["ready", "ready", "restoring"];
    let waits = ["node object"];
    const metrics = new AgentMetrics({
      endpointStates: () => states,
      waits: () => waits,
      deleteQueueLength: () => 3,
      addresses: () => [{ family: 4, state: "granted", count: 7 }],
      longestStandstillMs: () => 42,
    });
    const value = async (name: string, labels: object = {}) =>
      (await metrics.list()).find((metric) => metric.name === name && Bun.deepEquals(metric.labels, labels))?.value;
    expect(await value("tortie_endpoint_count")).toBe(3);
    expect(await value("tortie_endpoint_state", { state: "ready" })).toBe(2);
    expect(await value("tortie_waiting", { what: "node object" })).toBe(1);
    expect(await value("tortie_delete_queue_length")).toBe(3);
    expect(await value("tortie_ipam_addresses", { family: "ipv4", state: "granted" })).toBe(7);
    expect(await value("tortie_event_loop_longest_standstill_seconds")).toBe(0.042);
    expect(await value("tortie_process_resident_memory_bytes")).toBeGreaterThan(1_000_000);
    states = [];
    waits = [];
    expect(await value("tortie_endpoint_count")).toBe(0);
    expect(await value("tortie_endpoint_state", { state: "ready" })).toBeUndefined();
    expect(await value("tortie_waiting", { what: "node object" })).toBeUndefined();
  });

  it("have the names of histograms' parts in the list", async () => {
    metrics.cniTook("del", "total", 5);
    const names = new Set((await metrics.list()).map(({ name }) => name));
    expect([...names].filter((name) => name.startsWith("tortie_cni_seconds")).sort()).toEqual([
      "tortie_cni_seconds_bucket",
      "tortie_cni_seconds_count",
      "tortie_cni_seconds_sum",
    ]);
  });
});

describe("the figures of policy", () => {
  const source = (given: Partial<PolicyFigureSource> = {}): PolicyFigureSource => ({
    policies: () => [{ problem: undefined }, { problem: "no" }, { problem: undefined }],
    endpoints: () => [1, 2, 3],
    pending: () => [1],
    figures: () => ({ classes: 113, elements: 10_000 }),
    unsynced: () => ["namespaces"],
    conflicts: () => [1, 2],
    unread: () => [{ kind: "AdminNetworkPolicy", atLeast: 4 }],
    drops: { missed: 5, shown: () => [{ direction: "ingress", reason: "denied", packets: 7 }] },
    counters: async () => [{ direction: "ingress", reason: "denied", packets: 12n }],
    judged: async () => [{ direction: "ingress", packets: 40n }],
    ...given,
  });

  it("are there on a node that enforces policy, and only there", async () => {
    expect(await metrics.text()).not.toContain("tortie_policy_");
    let isEnforced = true;
    metrics.watchPolicy(() => (isEnforced ? source() : undefined));
    metrics.policyPassed("success", 3);
    const text = await metrics.text();
    for (const line of [
      'tortie_policy_drops_total{direction="ingress",reason="denied"} 12',
      'tortie_policy_judged_total{direction="ingress"} 40',
      'tortie_policy_drops_shown_total{direction="ingress",reason="denied"} 7',
      "tortie_policy_drops_missed_total 5",
      'tortie_policy_policies{state="valid"} 2',
      'tortie_policy_policies{state="invalid"} 1',
      "tortie_policy_endpoints 3",
      "tortie_policy_pending_endpoints 1",
      "tortie_policy_classes 113",
      "tortie_policy_elements 10000",
      "tortie_policy_unsynced_sources 1",
      "tortie_policy_claim_conflicts 2",
      'tortie_policy_unread_objects{kind="AdminNetworkPolicy"} 4',
      'tortie_policy_pass_seconds_sum{outcome="success"} 0.003',
    ]) {
      expect(text).toContain(`${line}\n`);
    }
    expect(text).toContain("# TYPE tortie_policy_drops_total counter\n");
    isEnforced = false;
    const later = await metrics.text();
    expect(later).not.toContain("tortie_policy_drops_total{");
    expect(later).not.toContain("tortie_policy_policies{");
  });

  it("do not add up when two read at once, and are there when the kernel cannot be asked", async () => {
    let isRefused = false;
    const counters = async () => {
      await Bun.sleep(1);
      if (isRefused) throw new Error("no table");
      return [{ direction: "ingress", reason: "denied", packets: 12n }];
    };
    metrics.watchPolicy(() => source({ counters }));
    const line = 'tortie_policy_drops_total{direction="ingress",reason="denied"} 12\n';
    for (const text of await Promise.all([metrics.text(), metrics.text()])) expect(text).toContain(line);
    isRefused = true;
    const text = await metrics.text();
    expect(text).not.toContain("tortie_policy_drops_total{");
    expect(text).toContain("tortie_policy_classes 113\n");
  });
});
