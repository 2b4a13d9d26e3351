/** What the engine says of flows in a raw cluster. */
import { PolicyEngine } from "../../../policy/engine.ts";
import { address } from "../addresses.ts";
import { callsFor, flowOf, hostInterfaceOf, isLocal } from "./engine-input.ts";
import type { RawCluster, RawFlow, RawVerdict } from "./oracle.ts";
import { filterVerdict } from "./packet-judge.ts";

export interface BothEnds {
  readonly egress: RawVerdict;
  readonly ingress: RawVerdict;
}

export function engineFor(cluster: RawCluster, order: readonly ((engine: PolicyEngine) => void)[] = callsFor(cluster)): PolicyEngine {
  const engine = new PolicyEngine({ enforcement: cluster.enforcement });
  for (const call of order) call(engine);
  engine.take();
  return engine;
}

/** What engine and filter say of each end of a flow, in the oracle's form. @returns `filter` for ends on this node alone */
export function answersOf(
  engine: PolicyEngine,
  cluster: RawCluster,
  raw: RawFlow,
): { readonly judge: BothEnds; readonly filter: BothEnds } {
  const flow = flowOf(raw);
  const { egress, ingress } = engine.judge(flow);
  const local = (own: string) => cluster.pods.find((pod) => isLocal(pod) && pod.addresses.includes(own));
  const filtered = (direction: "ingress" | "egress") => {
    const [own, other] = direction === "egress" ? [raw.source, raw.destination] : [raw.destination, raw.source];
    const pod = local(own);
    return pod && filterVerdict(engine.state, hostInterfaceOf(pod), direction, address(other), flow.protocol, flow.port);
  };
  return {
    judge: { egress: egress?.verdict, ingress: ingress?.verdict },
    filter: { egress: filtered("egress"), ingress: filtered("ingress") },
  };
}
