/**
 * Measures the policy engine by itself: 10,000 pods with 1,000 label sets, 1,000 policies, 110 endpoints.
 * `bash scripts/bun test/bench/policy/engine.ts [rounds]` prints the smallest and the median time of each step in milliseconds.
 */
import { PolicyEngine } from "../../../policy/engine.ts";
import type { PeerPod, PolicyObject } from "../../../policy/model.ts";
import { summarise } from "../statistics.ts";

const PODS = 10_000;
const NAMESPACES = 50;
const LABEL_SETS = 1_000;
const POLICIES = 1_000;
const ENDPOINTS = 110;

function peer(index: number, labelSet = index % LABEL_SETS): PeerPod {
  const namespace = `n${labelSet % NAMESPACES}`;
  return {
    namespace,
    name: `p${index}`,
    labels: { app: `a${labelSet}`, tier: `t${labelSet % 7}`, "pod-template-hash": `h${labelSet}` },
    addresses: [
      { family: 4, value: 0x0a00_0000n + BigInt(index) },
      { family: 6, value: (0xfdn << 120n) + BigInt(index) },
    ],
    ports: [{ name: "http", protocol: "TCP", port: 8000 + (labelSet % 3) }],
  };
}

function policy(index: number, port = 8000): PolicyObject {
  const app = `a${index % LABEL_SETS}`;
  const friend = (offset: number) => ({ podSelector: { matchLabels: { app: `a${(index + offset * NAMESPACES) % LABEL_SETS}` } } });
  return {
    namespace: `n${index % NAMESPACES}`,
    name: `policy-${index}`,
    uid: `uid-${index}`,
    resourceVersion: "1",
    spec: {
      podSelector: { matchLabels: { app } },
      policyTypes: ["Ingress", "Egress"],
      ingress: [
        { from: [friend(1), friend(2)], ports: [{ port }, { port: 9000, endPort: 9100 }] },
        { from: [{ namespaceSelector: { matchLabels: { team: `m${index % 10}` } }, podSelector: { matchLabels: { tier: "t1" } } }] },
        { from: [{ ipBlock: { cidr: `172.${16 + (index % 16)}.0.0/16`, except: [`172.${16 + (index % 16)}.${index % 256}.0/24`] } }] },
      ],
      egress: [{ to: [friend(3)], ports: [{ port: "http" }] }, { ports: [{ port: 53, protocol: "UDP" }] }],
    },
  };
}

function setAll(engine: PolicyEngine): void {
  for (let index = 0; index < NAMESPACES; index++) engine.setNamespace(`n${index}`, { team: `m${index % 10}` });
  for (let index = 0; index < POLICIES; index++) engine.setPolicy(`n${index % NAMESPACES}/policy-${index}`, policy(index));
  for (let index = 0; index < PODS; index++) engine.setPeer(`pod-${index}`, peer(index));
  // Endpoints are the pods of every ninetieth number.
  for (let index = 0; index < ENDPOINTS; index++) {
    const { namespace, name, labels, addresses, ports } = peer(index * 90);
    engine.setEndpoint(`cali${index}`, { addresses, pod: { namespace, name, labels, ports: ports ?? [] } });
  }
}

const times = new Map<string, number[]>();

function timed<T>(step: string, run: () => T): T {
  const begun = performance.now();
  const result = run();
  const series = times.get(step) ?? [];
  times.set(step, [...series, performance.now() - begun]);
  return result;
}

const everyEndpoint = (port: number): PolicyObject => ({
  ...policy(1, port),
  namespace: "n0",
  name: "all",
  spec: { podSelector: {}, ingress: [{ from: [{ podSelector: { matchLabels: { tier: "t2" } } }], ports: [{ port }] }] },
});

/** Bytes in use, without garbage. */
function heap(): number {
  Bun.gc(true);
  return process.memoryUsage().heapUsed;
}

function round(number: number): void {
  const before = number === 0 ? heap() : 0;
  const engine = new PolicyEngine({ enforcement: "default" });
  timed("start", () => {
    setAll(engine);
    engine.take();
  });
  const { state } = engine;
  const classes = new Set([...state.addresses.values(), ...state.blocks.map((one) => one.class)]);
  if (number === 0) {
    const mebibytes = (heap() - before) / 2 ** 20;
    console.log(
      `${state.endpoints.size} endpoints, ${state.addresses.size} addresses, ${classes.size} classes, ${mebibytes.toFixed(1)} MiB`,
    );
  }
  const move = (step: string, index: number, labelSet: number) =>
    timed(step, () => {
      engine.setPeer(`pod-${index}`, peer(index, labelSet));
      return engine.take();
    });
  move("one pod's labels, known class", 5, 6);
  timed("one pod's labels, new class", () => {
    engine.setPeer("pod-7", { ...peer(7), labels: { app: "a57", tier: "t1", odd: "yes" }, namespace: "n7" });
    return engine.take();
  });
  timed("one pod gone", () => {
    engine.setPeer("pod-8", undefined);
    return engine.take();
  });
  timed("one policy", () => {
    engine.setPolicy("n40/policy-90", policy(90, 8100 + number));
    return engine.take();
  });
  for (let index = 0; index < ENDPOINTS; index++) {
    const { name, labels, addresses, ports } = peer(index * 90);
    engine.setEndpoint(`cali${index}`, { addresses, pod: { namespace: "n0", name, labels, ports: ports ?? [] } });
  }
  engine.take();
  const { endpoints } = timed("a policy for 110 endpoints", () => {
    engine.setPolicy("n0/all", everyEndpoint(8200 + number));
    return engine.take();
  });
  if (endpoints.size !== ENDPOINTS) throw new Error(`${endpoints.size} endpoints changed`);
  timed("one namespace's labels", () => {
    engine.setNamespace("n3", { team: `m${4 + (number % 2)}` });
    return engine.take();
  });
  timed("state", () => engine.state);
  timed("judge", () =>
    engine.judge({ source: { family: 4, value: 0x0a00_0005n }, destination: { family: 4, value: 0x0a00_0000n }, protocol: 6, port: 80 }),
  );
}

const rounds = Number(process.argv[2] ?? 5);
for (let number = 0; number < rounds; number++) round(number);
for (const [step, series] of times) console.log(`${step.padEnd(32)} ${Math.min(...series).toFixed(2)} ${summarise(series).p50.toFixed(2)}`);
