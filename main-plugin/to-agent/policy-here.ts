/**
 * Answers for policy in a plugin that serves its call itself, on a node where policy is on: only the agent opens pods, so an ADD waits until
 * the kernel knows its host end, and fails otherwise. The agent hears of the attachment by the record that the plugin writes beside it.
 */

import { HostSockets } from "../../dataplane/netlink/host-sockets.ts";
import { isKnownEndpoint } from "../../dataplane/nftables/policy/known-endpoints.ts";
import { readPolicyFile } from "../../handover/policy-file.ts";
import type { RunDirectory } from "../../handover/run-directory.ts";
import { sleepUnless } from "../../lib/system/waiting.ts";
import { type CallPolicy, closedEnd, NO_POLICY, notReady } from "../policy.ts";

const LOOK_EVERY_MS = 10;

/** @param limitMs `agent_wait_seconds` in milliseconds @returns `undefined` where policy is off */
export function policyHere({ policyFile }: Pick<RunDirectory, "policyFile">, limitMs: number): CallPolicy | undefined {
  if (readPolicyFile(policyFile) === undefined) return undefined;
  const isKnown = (hostInterface: string) => {
    using host = new HostSockets();
    return isKnownEndpoint(host, hostInterface);
  };
  return {
    ...NO_POLICY,
    async ready(hostInterface, signal) {
      const end = performance.now() + limitMs;
      while (!isKnown(hostInterface)) {
        if (performance.now() >= end) throw notReady(`which opens ${hostInterface}, for ${limitMs / 1000} s`);
        await sleepUnless(signal, LOOK_EVERY_MS);
      }
    },
    differences: (hostInterface) => (isKnown(hostInterface) ? [] : [closedEnd(hostInterface)]),
  };
}
