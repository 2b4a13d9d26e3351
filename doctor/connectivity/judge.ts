/** Judges what came of one trial, by what else went well and what the hosts' kernels say. Pure. */
import { type Finding, failed, skipped, warned, well } from "../report.ts";
import { betweenNodes, betweenPods, byHostPort, type Cause, endsOf, type Known, onItsNode, toOwnHost, toOwnPod } from "./causes.ts";
import type { Placed, Trial } from "./plan.ts";
import type { Answer } from "./question.ts";
import type { Check } from "./world.ts";

const GROUPS: Readonly<Record<Check, string>> = {
  "same-node": "pods",
  "other-node": "pods",
  "host-to-pod": "host",
  "pod-to-host": "host",
  "host-port": "host",
  egress: "outside",
  dns: "outside",
  "path-mtu": "path",
  bandwidth: "path",
  "source-check": "guards",
  policy: "guards",
};

/** Heads the rows that belong together on the screen. */
export function groupOf(check: Check): string {
  return GROUPS[check];
}

/** Judges one trial. */
export function judge(trial: Trial, known: Known): Finding {
  const answers = trial.asked.map(({ question }) => known.answerOf(question.id));
  const given = answers.flatMap((answer) => answer ?? []);
  if (given.length < answers.length) return skipped(trial.object, "the probe did not run");
  return JUDGES[trial.check](trial, given, known);
}

type Judge = (trial: Trial, answers: readonly Answer[], known: Known) => Finding;

const JUDGES: Readonly<Record<Check, Judge>> = {
  "same-node": reached("pods of one node reach each other", "a pod does not reach another pod of its node", betweenPods),
  "other-node": reached("pods reach pods of the other node", "a pod does not reach a pod of the other node", betweenNodes),
  "host-to-pod": reached("the host reaches its pods", "the host does not reach a pod of its own", toOwnPod),
  "pod-to-host": reached("pods reach their host", "a pod does not reach its host", toOwnHost),
  "host-port": reached("the port of the host leads to the pod", "the port of the host does not lead to its pod", byHostPort),
  egress: judgeEgress,
  dns: judgeLookup,
  "path-mtu": judgeMtu,
  bandwidth: judgeBandwidth,
  "source-check": judgeSource,
  policy: judgePolicy,
};

/** Makes the judge of trials that ask whether one connection comes about. */
function reached(yes: string, no: string, causeOf: (trial: Trial, answer: Answer, known: Known) => Cause): Judge {
  return (trial, [answer], known) => {
    if (answer === undefined || answer.ok) return well(trial.object, yes);
    const { cause, next } = causeOf(trial, answer, known);
    return failed(trial.object, `${no} (${wordsOf(answer)}): ${cause}`, { next });
  };
}

const WORDS: Readonly<Record<string, string>> = {
  timeout: "no answer",
  ETIMEDOUT: "no answer",
  ECONNREFUSED: "refused",
  EHOSTUNREACH: "host unreachable",
  ENETUNREACH: "network unreachable",
};

function wordsOf({ why = "", text }: Answer): string {
  if (why === "another") return `somebody else answers: ${JSON.stringify(text)}`;
  return WORDS[why] ?? why;
}

function judgeEgress(trial: Trial, [pod, host]: readonly Answer[], known: Known): Finding {
  const { object } = trial;
  if (pod === undefined || pod.ok) return well(object, "pods reach what is outside");
  if (host?.ok === false) {
    const next = "name something that the host reaches: --egress ADDRESS:PORT";
    return warned(object, `neither a pod nor the host itself reaches it (${wordsOf(host)})`, { next });
  }
  const found = onItsNode(trial, pod, known);
  const cause = found?.cause ?? "answers do not find back: most probably its packets are not masqueraded, or a firewall drops them";
  const next =
    found?.next ??
    "set natOutgoing of the pool, and look for its rule: nft list table inet tortie; a network that knows the pods' addresses needs none, but routes";
  return failed(object, `the host reaches it and a pod does not (${wordsOf(pod)}): ${cause}`, { next });
}

function judgeLookup({ object }: Trial, [pod, host]: readonly Answer[]): Finding {
  if (pod === undefined || pod.ok) return well(object, `pods are answered by the name server: ${pod?.text ?? ""}`);
  const server = pod.text ?? "the name server";
  if (host?.ok === false) {
    return warned(object, `neither a pod nor the host itself is answered by ${server}`, {
      next: "name one that answers: --dns-server ADDRESS",
    });
  }
  if (pod.why === "no-server")
    return failed(object, "/etc/resolv.conf of a pod names no server", { next: "look at dnsPolicy, and kubelet's clusterDNS" });
  const next =
    "are the pods of the name server Ready, and does kube-proxy run there? Does a policy or a firewall close port 53 to pods (tortiectl policy drops)?";
  return failed(object, `pods get no answer from ${server} (${wordsOf(pod)})`, { next });
}

function judgeMtu(trial: Trial, answers: readonly Answer[], known: Known): Finding {
  const { object, peer, node } = trial;
  const lost = trial.asked.flatMap(({ question }, index) => (answers[index]?.ok === false ? [`${KIND_WORDS[question.kind]}`] : []));
  const mtu = answers[0]?.value ?? answers[1]?.value ?? 0;
  if (lost.length === 0) return well(object, `packets of ${mtu} bytes, the pods' MTU, pass in both directions`);
  const narrow = endsOf(known, [node, peer?.node ?? node]).find((end) => mtu > 0 && end.mtu < mtu);
  if (narrow !== undefined) {
    const next =
      "the two ends of a link must have one MTU: delete the pod, and look for what changes it (a udev rule, networkd's MTUBytes=, a chained plugin)";
    return failed(object, `${lost.join(" and ")} get lost: the host end ${narrow.name} has MTU ${narrow.mtu}, its pod ${mtu}`, { next });
  }
  if (lost.length === trial.asked.length && !isReached(trial, known)) return skipped(object, "small packets do not pass either");
  const next = `set "mtu" of the list to what the path carries (ping -M do -s SIZE finds it), or let ICMP "fragmentation needed" and ICMPv6 "packet too big" pass`;
  return failed(
    object,
    `${lost.join(" and ")} get lost, small ones pass: the path carries less than ${mtu} bytes, and nobody says so to the sender`,
    { next },
  );
}

const KIND_WORDS: Readonly<Record<string, string>> = {
  "datagram-there": "full packets to the peer",
  "datagram-back": "full packets from the peer",
  bulk: "transfers",
};

/** A small packet has come through where the peer could say that it has not seen the large one. */
function isReached({ asked }: Trial, { answerOf }: Known): boolean {
  return asked.some(({ question }: Placed) => answerOf(question.id)?.why === "timeout" && answerOf(question.id)?.value !== undefined);
}

/** A rate above this multiple of the limit is no limit. Busy machines only make a transfer slower. */
const TOLERATED = 2;

function judgeBandwidth(trial: Trial, answers: readonly Answer[], known: Known): Finding {
  const { object, peer, node } = trial;
  if (answers.some(({ ok }) => !ok)) return skipped(object, "the limited pod is not reached");
  const { bitsPerSecond, isPromised } = known.world.limit;
  const rates = trial.asked.map(({ question }, index) => ((question.bytes ?? 0) * 8) / ((answers[index]?.value ?? 1) / 1000));
  const megabits = (bits: number) => `${(bits / 1e6).toFixed(1)} Mbit/s`;
  const limit = megabits(bitsPerSecond);
  if (rates.every((rate) => rate <= TOLERATED * bitsPerSecond)) {
    return well(object, `a limit of ${limit} holds: ${rates.map(megabits).join(" into the pod, ")} out of it`);
  }
  const queue = known.facts.get(node)?.ends[peer?.hostEnd ?? ""]?.queue;
  // containerd asks for the largest burst there is: the queue is there, and half a gigabyte passes before it slows anything.
  if (queue === "tbf")
    return well(object, `a limit of ${limit} is set (tbf on ${peer?.hostEnd}); its burst is larger than this test's transfer`);
  const sentence = `a limit of ${limit} does not hold: ${rates.map(megabits).join(" into the pod, ")} out of it`;
  if (isPromised) {
    const next = `tc qdisc show dev ${peer?.hostEnd ?? "cali…"} shows tbf where the limit is in force: look for what replaces qdiscs, and delete the pod`;
    return failed(object, `${sentence}; most probably the qdisc of its link is gone`, { next });
  }
  return warned(object, `${sentence}; no plugin of the list takes bandwidth`, {
    next: "chain the plugin bandwidth behind tortie if limits are wanted",
  });
}

function judgeSource({ object, peer }: Trial, [answer]: readonly Answer[]): Finding {
  if (answer === undefined || answer.ok) return well(object, "packets with the address of another pod are dropped");
  if (answer.why === "arrived") {
    const next = `look at rp_filter of the pods' links and of all, and nft list table inet tortie (chain of sources) on ${peer?.node}; tortiectl doctor`;
    return failed(object, "a pod can send with the address of another: nothing checks the source on its link", { next });
  }
  if (answer.why === "timeout") return skipped(object, "its own packets do not arrive either");
  return skipped(object, `no such packet can be sent from a pod here (${answer.why})`);
}

function judgePolicy({ object, node }: Trial, [open, closed]: readonly Answer[], { world }: Known): Finding {
  if (closed?.ok === false) {
    if (!world.isPolicyPromised) {
      const next = "turn it on (docs/how-to/enforce-policy.md), or let Felix do it; until then NetworkPolicy objects have no effect";
      return warned(object, "nobody enforces NetworkPolicy: a port that a policy closes answers", { next });
    }
    const next = `tortiectl policy check and tortiectl policy list on ${node} say what the kernel lacks; the agent compares it by itself`;
    return failed(object, "a port that a policy closes answers, although policy is on", { next });
  }
  if (open?.ok === false) {
    return failed(object, `a port that a policy opens does not answer (${wordsOf(open)})`, {
      next: `tortiectl policy drops on ${node} says which rule`,
    });
  }
  return well(object, "a policy closes what it selects, and opens what it allows");
}
