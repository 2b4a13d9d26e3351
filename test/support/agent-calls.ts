/** Calls of a plugin to an agent, made by the test itself: the sandbox is looked at and held open as the plugin does (A§11.3). */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Agent } from "./agent.ts";
import type { CallAnswer, CniCallBody } from "./call-socket.ts";
import { addressesOf, hostEndOf, prefixesOf } from "./cni-result.ts";
import { BIN_DIR, type Pod } from "./node.ts";

export interface CallOptions {
  readonly containerId?: string;
  readonly ifname?: string;
  readonly args?: string;
  readonly path?: string;
  /** Variables of the plugin besides CNI_*. */
  readonly env?: Readonly<Record<string, string>>;
  readonly pod?: Pod;
  /** Where `pod` does not do. */
  readonly netns?: CniCallBody["netns"];
  /** Milliseconds that the caller waits. */
  readonly deadlineMs?: number;
}

export async function callAgent(agent: Agent, verb: string, conf: unknown, options: CallOptions = {}): Promise<CallAnswer> {
  return agent.call(verb, callBody(conf, options), options.deadlineMs === undefined ? {} : { deadlineMs: options.deadlineMs });
}

/** What tests want to know of an ADD that succeeds. */
export interface Added extends CallAnswer {
  /** With their lengths. */
  readonly prefixes: readonly string[];
  readonly addresses: readonly string[];
  readonly hostEnd: string;
}

/** An ADD that must succeed. */
export async function addByAgent(agent: Agent, conf: unknown, options: CallOptions): Promise<Added> {
  const answer = await callAgent(agent, "add", conf, options);
  expect({ status: answer.status, text: answer.status === 200 ? "" : answer.text }).toEqual({ status: 200, text: "" });
  const { json } = answer;
  return { ...answer, prefixes: prefixesOf(json), addresses: addressesOf(json), hostEnd: hostEndOf(json) };
}

export function callBody(conf: unknown, options: CallOptions = {}): CniCallBody {
  const { pod, netns = pod === undefined ? undefined : lookAt(pod), containerId = "cid1", ifname = "eth0", args } = options;
  return {
    plugin: "test",
    containerId,
    ifname,
    ...(args === undefined ? {} : { args }),
    path: options.path ?? BIN_DIR,
    ...(netns === undefined ? {} : { netns }),
    // A plugin hands over the calls of such lists alone.
    stdin: typeof conf === "string" ? conf : JSON.stringify({ agent: "require", ...Object(conf) }),
    env: options.env ?? {},
  };
}

/** A pod's sandbox as a plugin sees it before the call. */
export function lookAt({ netnsPath }: Pod): { readonly path: string; readonly dev: string; readonly ino: string } {
  const { dev, ino } = statSync(netnsPath, { bigint: true });
  return { path: netnsPath, dev: String(dev), ino: String(ino) };
}

/** An endpoint's record as it stands on disk. */
export interface RecordOnDisk {
  readonly id: number;
  readonly phase: string;
  readonly attachment: { readonly network: string; readonly containerId: string; readonly ifname: string };
}

/** The records of an agent's endpoints, whatever it does at the moment. */
export function recordsOf({ runDir }: Pick<Agent, "runDir">): RecordOnDisk[] {
  const state = join(runDir, "state");
  return readdirSync(state)
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        return [JSON.parse(readFileSync(join(state, name, "endpoint.json"), "utf8"))];
      } catch {
        return [];
      }
    });
}
