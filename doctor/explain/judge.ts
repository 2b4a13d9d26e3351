/** Judges one attachment by what was looked up of it: each thing that differs from what should be, with its next step. Pure. */
import type { Difference } from "../../dataplane/desired-state.ts";
import { type CheckResult, type Finding, failed, result, skipped, warned, well } from "../report.ts";
import { type AttachmentFacts, ownerOf, wrongInPolicy } from "./facts.ts";

/** Says what to do where the policy's table is wrong and nobody is there who writes it. */
export const ONLY_AGENT = "start the agent of this node (tortie-node), which alone writes the policy's table";

/** Says how the attachment is called where it is repaired. */
export function repairCommand({ shown }: Pick<AttachmentFacts, "shown">): string {
  return `tortiectl repair ${ownerOf(shown)}`;
}

/** Lists what is right and wrong with the attachment, the gravest first. */
export function judgeAttachment(facts: AttachmentFacts): readonly CheckResult[] {
  return [...sandbox(facts), ...kernel(facts), ...record(facts), ...mtu(facts), ...policy(facts), ...deletion(facts)];
}

function nameOf({ shown }: AttachmentFacts): string {
  return `${shown.ifname} of ${ownerOf(shown)}`;
}

function sandbox(facts: AttachmentFacts): readonly CheckResult[] {
  const { shown } = facts;
  if (facts.sandbox === "there") return [];
  if (facts.sandbox === "unknown") {
    const unseen = "nobody knows the path of its sandbox: the pod's side is not compared";
    return [result("attachment", "sandbox", skipped(nameOf(facts), unseen))];
  }
  if (facts.sandbox === "lost") {
    const lost = `its link is gone, and nobody can prove which sandbox it was in: ${shown.addresses.join(", ") || "nothing"} stays taken`;
    const release = `delete it with the runtime, or make it again; if the runtime does not know it: tortiectl ipam release --container ${shown.containerId}`;
    return [result("attachment", "sandbox", failed(nameOf(facts), lost, { next: release, word: "netns-unproven" }))];
  }
  const message = `its sandbox ${shown.netns === undefined ? "" : `${shown.netns} `}is gone, and no DEL has come: ${shown.addresses.join(", ") || "nothing"} stays taken`;
  const next = `let the runtime delete it; if it never will: tortiectl repair container ${shown.containerId}`;
  return [result("attachment", "sandbox", failed(nameOf(facts), message, { next, word: "netns-missing" }))];
}

function kernel(facts: AttachmentFacts): readonly CheckResult[] {
  const { differences, uncompared } = facts;
  if (hasNoLink(facts)) return [];
  if (differences === undefined) return [result("attachment", "kernel", skipped(nameOf(facts), uncompared ?? "it was not compared"))];
  if (differences.length === 0)
    return [result("attachment", "kernel", well(nameOf(facts), "link, addresses, routes and settings are as they should be"))];
  return differences.map((one) => result(one.side === "host" ? "host side" : "pod side", checkOf(one), differing(one, facts)));
}

function hasNoLink({ sandbox: standing }: Pick<AttachmentFacts, "sandbox">): boolean {
  return standing === "gone" || standing === "lost";
}

/** Names the kind of thing that differs. */
function checkOf({ object }: Difference): string {
  const [kind = "link"] = object.split(" ");
  return kind === "setting" ? "sysctl" : kind;
}

function differing(one: Difference, facts: AttachmentFacts): Finding {
  const message = `wanted ${one.wanted}, found ${one.found === "" ? "nothing" : one.found}${causeOf(one)}`;
  return failed(one.object, message, { next: nextOf(one, facts), word: "check-failed" });
}

function nextOf(one: Difference, facts: AttachmentFacts): string {
  const [, destination] = /^route (\S+)$/.exec(one.object) ?? [];
  const [, device] = /dev (\S+)/.exec(one.found) ?? [];
  if (one.side === "host" && destination !== undefined && device !== undefined) {
    return `find out whose ${device} is; if it is nobody's: ip route del ${destination} dev ${device}; then ${repairCommand(facts)}`;
  }
  return one.side === "host" || one.object.startsWith("link ") ? `${repairCommand(facts)}${lastingOf(one)}` : podSideNext(facts);
}

function causeOf({ object, found }: Difference): string {
  if (object.startsWith("route ") && found !== "missing") return ": another interface has the pod's route, so its packets go there";
  if (object.startsWith("route ")) return ": somebody has removed it, as systemd-networkd and NetworkManager do when they restart";
  if (object.startsWith("setting ")) return ": another program has changed it";
  if (object.endsWith(" MAC")) return ": another program has changed it, as udev's MACAddressPolicy does";
  if (object.endsWith(" alias")) return ": nobody can tell any more whose link it is";
  if (found === "tentative") return ": the kernel is still looking for another host with this address";
  return "";
}

/** Says how it stays repaired, where something else keeps changing it. */
function lastingOf({ object }: Difference): string {
  if (object.startsWith("setting ")) return "; keep sysctl.d files and tuned from cali* interfaces, or it comes back";
  if (object.startsWith("route ") || object.startsWith("link ")) {
    return "; let systemd-networkd and NetworkManager leave cali* unmanaged (docs/how-to/explain.md), or it comes back";
  }
  return "";
}

/** What differs inside a sandbox is the container's own business: Tortie does not reach in. */
function podSideNext({ shown: { pod } }: AttachmentFacts): string {
  return `something inside the container has changed it, and Tortie does not reach in: delete ${pod === undefined ? "the container" : `pod ${pod}`}, so that it is made again`;
}

function record(facts: AttachmentFacts): readonly CheckResult[] {
  const { recordDifferences } = facts;
  if (recordDifferences === undefined || hasNoLink(facts)) return [];
  return recordDifferences.map((message) =>
    result("attachment", "record", failed(`record of ${nameOf(facts)}`, message, { next: repairCommand(facts), word: "check-failed" })),
  );
}

function mtu(facts: AttachmentFacts): readonly CheckResult[] {
  const { hostEnd, podEnd, uplink } = facts.shown.mtu ?? {};
  const found: CheckResult[] = [];
  if (hostEnd !== undefined && podEnd !== undefined && hostEnd !== podEnd) {
    const message = `the host end has MTU ${hostEnd}, the pod end ${podEnd}: packets between the two sizes are lost without a word`;
    const next = "set both alike, or delete the pod, so that it is made again; mtu of the network configuration decides";
    found.push(result("attachment", "mtu", failed(nameOf(facts), message, { next })));
  }
  const largest = Math.max(hostEnd ?? 0, podEnd ?? 0);
  if (uplink !== undefined && largest > uplink.mtu) {
    const message = `its MTU is ${largest}, but ${uplink.name}, by which the host reaches others, takes ${uplink.mtu} bytes`;
    const next = `set mtu of the network configuration to ${uplink.mtu} (less what a tunnel needs), and delete the pod, so that it is made again`;
    found.push(result("attachment", "mtu", warned(nameOf(facts), message, { next })));
  }
  return found;
}

function policy(facts: AttachmentFacts): readonly CheckResult[] {
  const { policy: standing, shown } = facts;
  if (standing === undefined || hasNoLink(facts)) return [];
  const name = shown.hostEnd?.name ?? "";
  const word = standing.isKnown === undefined ? "policy-table-missing" : standing.isKnown ? "policy-table-edited" : "policy-not-ready";
  const next = standing.isServed ? repairCommand(facts) : `${ONLY_AGENT}; or open every pod of this node: tortiectl policy off`;
  return wrongInPolicy(standing, name).map((message) => result("policy", "endpoint", failed(`interface ${name}`, message, { next, word })));
}

function deletion(facts: AttachmentFacts): readonly CheckResult[] {
  if (facts.deletionWaitsSince === undefined) return [];
  const message = `its DEL came at ${facts.deletionWaitsSince} and waits for the agent: its addresses are given back when that runs`;
  const next = "start the agent of this node (tortie-node); it carries out what waits before anything else";
  return [result("attachment", "deletion", warned(nameOf(facts), message, { next, word: "agent-unreachable" }))];
}
