/** Traces of a real agent, as a receiver of OTLP/HTTP gets them. */
import { Agent } from "../../support/agent.ts";
import { localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node } from "../../support/node.ts";
import { type Behaviour, OtlpReceiver } from "../../support/otlp-receiver.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";
const TRACEPARENT = `00-${TRACE}-${SPAN}-01`;

const node = fresh(Node.create);

describe("the trace of a call", () => {
  it("leads from the runtime's span through steps to the kernel, and the log names it", async () => {
    using receiver = await OtlpReceiver.start(node);
    await using agent = await Agent.start(node, { env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint } });
    const conf = localConf(node, { ...agent.netconf, log_level: "info" });
    const pod = await node.addPod();
    const other = `00-${"1".repeat(32)}-${"2".repeat(16)}-01`;

    expect(await node.cni("ADD", { pod, conf, env: { TRACEPARENT } })).toMatchObject({ exit: 0 });
    expect(await node.cni("DEL", { pod, conf: { ...conf, runtimeConfig: { traceparent: other } } })).toMatchObject({ exit: 0 });
    // Not sampled: the runtime records nothing of it.
    expect(await node.cni("DEL", { pod, conf, env: { TRACEPARENT: TRACEPARENT.replace(/01$/, "00") } })).toMatchObject({ exit: 0 });
    await agent.stop();

    expect(agent.log).toMatch(new RegExp(`ADD done.* trace=${TRACE}`));
    expect(agent.log).toMatch(new RegExp(`DEL done.* trace=${"1".repeat(32)}`));
    const [add, ...more] = receiver.named("CNI ADD");
    if (add === undefined) throw new Error(`no span of the ADD:\n${agent.log}`);
    expect(more).toEqual([]);
    expect(add).toMatchObject({ traceId: TRACE, parentSpanId: SPAN, service: "tortie-node", status: 0 });
    expect(add.attributes).toMatchObject({ "cni.network": conf.name, "container.id": "cid1" });
    const steps = receiver.below(add);
    expect(steps.map(({ name }) => name)).toEqual(expect.arrayContaining(["ipam", "dataplane", "endpoint"]));
    for (const { start, end } of steps) expect([add.start <= start, start <= end, end <= add.end]).toEqual([true, true, true]);
    const [dataplane] = steps.filter(({ name }) => name === "dataplane");
    expect(dataplane && receiver.below(dataplane).map(({ name }) => name)).toEqual(["kernel apply"]);
    expect(receiver.spans.filter(({ traceId }) => traceId === TRACE).length).toBeGreaterThan(steps.length);
    expect(receiver.named("CNI DEL")).toEqual([expect.objectContaining({ traceId: "1".repeat(32), parentSpanId: "2".repeat(16) })]);
  });

  it("begins with the agent where the runtime says nothing that makes sense, and says which call failed", async () => {
    using receiver = await OtlpReceiver.start(node);
    await using agent = await Agent.start(node, { args: ["--otlp-endpoint", receiver.endpoint] });
    const conf = localConf(node, { ...agent.netconf, runtimeConfig: { traceparent: 7 } });
    const pod = await node.addPod();
    expect(await node.cni("ADD", { pod, conf, env: { TRACEPARENT: "00-nothing" } })).toMatchObject({ exit: 0 });
    expect(await node.cni("ADD", { pod, conf, containerId: "c2", args: "MAC=wrong" })).toMatchObject({ exit: 1 });
    await agent.stop();
    expect(receiver.named("CNI ADD").map(({ parentSpanId, status }) => [parentSpanId, status])).toEqual([
      ["", 0],
      ["", 2],
    ]);
  });

  it.each<Behaviour>(["refuses", "hangs", "is away"])("disturbs nothing when the receiver %s", async (fault) => {
    using receiver = await OtlpReceiver.start(node, fault);
    await using agent = await Agent.start(node, { env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint } });
    const conf = localConf(node, agent.netconf);
    const pod = await node.addPod();
    expect(await node.cni("ADD", { pod, conf, env: { TRACEPARENT } })).toMatchObject({ exit: 0 });
    if (fault !== "is away") await agent.until("the spans to be sent", () => receiver.requests > 0);
    if (fault === "refuses") await agent.until("a word in the log", () => agent.log.includes("traces do not arrive"));
    expect(await node.cni("DEL", { pod, conf, env: { TRACEPARENT } })).toMatchObject({ exit: 0 });
    await node.expectClean();
    expect(await agent.stop()).toBe(0);
  });
});
