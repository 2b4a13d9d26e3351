/** Answers what is asked about policy: from the agent's view of it, in the words of the API. */
import { networkInterfaces } from "node:os";
import type { DropCount } from "../../dataplane/nftables/policy/counters.ts";
import { type Address, formatAddress, parseAddress } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { SYSTEM_CLOCK, withLimit } from "../../lib/system/waiting.ts";
import type { PolicyStatus, SideJudgement } from "../../policy/model.ts";
import type { Drop } from "../policy/drop.ts";
import { type Explanation, explain, type FoundEnd, hostEndNamed, type ProtocolName } from "../policy/explain.ts";
import type { PolicyView } from "../policy/view.ts";
import { waitForPolicy } from "../policy/wait.ts";
import { DropStream } from "./drop-stream.ts";
import type { HandlersOf } from "./operation.ts";
import type {
  NodePolicy,
  PendingEndpoint,
  POLICY_OPERATIONS,
  PolicyDrop,
  PolicyDrops,
  PolicyEnd,
  PolicyExplanation,
  PolicyModel,
  PolicySide,
} from "./policy-schema.ts";

const DEFAULT_WAIT_SECONDS = 30;
const SECOND_MS = 1_000;
const MENDING_MS = 20_000;

export interface PolicyPort {
  /** @throws TortieError `policy-off` */
  readonly view: () => PolicyView;
  /** Ends live answers and waits: the agent ends. */
  readonly ending: AbortSignal;
}

export function policyHandlers({ view, ending }: PolicyPort): HandlersOf<typeof POLICY_OPERATIONS> {
  return {
    getPolicy: () => ({ status: 200, body: nodePolicy(view()) }),
    comparePolicyTable: async () => ({ status: 200, body: { differences: [...(await view().differences())] } }),
    async mendPolicyTable() {
      const late = new TortieError(
        "policy-not-ready",
        `policy not ready: the packet filter was not compared within ${MENDING_MS / SECOND_MS} s`,
      );
      const differences = await withLimit(SYSTEM_CLOCK, { limitMs: MENDING_MS, late, signal: ending }, (signal) => view().mend(signal));
      return { status: 200, body: { differences: [...differences] } };
    },
    async explainPolicy({ query: { from, to, protocol = "TCP", port, "port-name": name } }) {
      const question = { from, to, protocol, port: protocol === "ICMP" ? undefined : (port ?? name) };
      return { status: 200, body: explanationModel(protocol, await explain(view(), question, isOwnAddress)) };
    },
    getPolicyDrops: async ({ query: { endpoint } }) => ({ status: 200, body: await dropsModel(view(), endpoint) }),
    followPolicyDrops({ query: { endpoint } }) {
      const found = view();
      const hostInterface = endpoint === undefined ? undefined : hostEndNamed(found, endpoint);
      const body = new DropStream(found.drops, hostInterface, ending, (drop) => JSON.stringify(dropModel(drop)));
      return { status: 200, body, headers: { "content-type": "application/x-ndjson" } };
    },
    async waitForPolicy({ query: { policy, "resource-version": resourceVersion, timeout = DEFAULT_WAIT_SECONDS } }) {
      const found = view();
      const signal = AbortSignal.any([AbortSignal.timeout(timeout * SECOND_MS), ending]);
      const { isRealised, pending, reasons } = await waitForPolicy(found, { policy, resourceVersion }, signal);
      return { status: 200, body: { realised: isRealised, pending: pendingModels(pending, podsOf(found)), reasons } };
    },
  };
}

/** This host's addresses change, and there are few. */
function isOwnAddress({ family, value }: Address): boolean {
  return Object.values(networkInterfaces()).some((addresses = []) =>
    addresses.some(({ address: text }) => {
      const own = parseAddress(text);
      return own?.family === family && own.value === value;
    }),
  );
}

/** Host end → pod. */
type Pods = ReadonlyMap<string, string | undefined>;

function podsOf(view: PolicyView): Pods {
  return new Map(view.endpoints().map(({ hostInterface, pod }) => [hostInterface, pod]));
}

function nodePolicy(view: PolicyView): NodePolicy {
  const pods = podsOf(view);
  return {
    enforcement: view.enforcement,
    gaps: [...view.gaps()],
    unread: view.unread().map(({ kind, atLeast }) => ({ kind, "at-least": atLeast })),
    conflicts: view.conflicts().map(({ address, pods: claimants }) => ({ address, pods: [...claimants] })),
    policies: view.policies().map((status) => policyModel(view, status, pods)),
  };
}

function policyModel(view: PolicyView, status: PolicyStatus, pods: Pods): PolicyModel {
  const { key, uid, resourceVersion, directions, endpoints, problem } = status;
  const { resourceVersion: realised, pending } = view.realisation(key);
  const slash = key.indexOf("/");
  return {
    namespace: key.slice(0, slash),
    name: key.slice(slash + 1),
    uid,
    "resource-version": resourceVersion,
    directions: [...directions],
    endpoints: endpoints.map((hostInterface) => ({ "host-interface": hostInterface, pod: pods.get(hostInterface) })),
    problem,
    realised: realised === resourceVersion && pending.length === 0,
    "realised-version": realised,
    pending: pendingModels(pending, pods),
  };
}

function pendingModels(pending: ReturnType<PolicyView["pending"]>, pods: Pods): PendingEndpoint[] {
  return pending.map(({ hostInterface, reason }) => ({ "host-interface": hostInterface, pod: pods.get(hostInterface), reason }));
}

function explanationModel(protocol: ProtocolName, { from, to, port, pairs }: Explanation): PolicyExplanation {
  return {
    from: endModel(from),
    to: endModel(to),
    protocol,
    port,
    verdicts: pairs.map(({ family, egress, ingress, notes, ...pair }) => ({
      family: family === 4 ? "ipv4" : "ipv6",
      ...pair,
      egress: egress && sideModel(egress),
      ingress: ingress && sideModel(ingress),
      notes: [...notes],
    })),
  };
}

function endModel({ pod, hostInterface, addresses, identity }: FoundEnd): PolicyEnd {
  return { pod, "host-interface": hostInterface, addresses: addresses.map(formatAddress), identity };
}

function sideModel({ policies, decidedBy, peerClass, lacksPorts: _, ...side }: SideJudgement): PolicySide {
  return { ...side, policies: [...policies], "decided-by": decidedBy, "peer-class": peerClass };
}

async function dropsModel(view: PolicyView, endpoint: string | undefined): Promise<PolicyDrops> {
  const hostInterface = endpoint === undefined ? undefined : hostEndNamed(view, endpoint);
  const shown = view.drops.shown();
  const counts = (await countersOf(view)).map(({ direction, reason, packets }) => ({
    direction,
    reason,
    dropped: Number(packets),
    shown: shown.find((one) => one.direction === direction && one.reason === reason)?.packets ?? 0,
  }));
  return { drops: view.drops.recent(hostInterface).map(dropModel), counts, missed: view.drops.missed };
}

/** Gives no counters where the kernel cannot be asked, or its table is being made: the packets that are remembered are worth an answer. */
async function countersOf(view: PolicyView): Promise<readonly DropCount[]> {
  try {
    return await view.counters();
  } catch (error) {
    if (error instanceof TortieError && error.word === "policy-failed") return [];
    throw error;
  }
}

function dropModel({ hostInterface, decidedBy, policies, source, destination, ...drop }: Drop): PolicyDrop {
  return {
    ...drop,
    "host-interface": hostInterface,
    "decided-by": decidedBy,
    policies: [...policies],
    source,
    destination,
  };
}
