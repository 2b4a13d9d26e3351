/**
 * Repairs one attachment: by the agent where it answers, else by the agent's own code, under the attachment's lock. What changes a link is
 * agent/endpoints/mend-link.ts in both cases: it proves the sandbox, the link and the addresses first, and touches nothing else.
 */
import type { AgentClient } from "../../../agent/api/client.ts";
import { resolveCall, type ServedCall } from "../../../agent/attachments/call.ts";
import { StoreWitness } from "../../../agent/attachments/grant-witness.ts";
import { mendLink } from "../../../agent/endpoints/mend-link.ts";
import type { Mendable } from "../../../agent/endpoints/mending.ts";
import type { StatusCode } from "../../../agent/endpoints/status.ts";
import { RecordStore } from "../../../agent/endpoints/store.ts";
import { AttachmentLocks } from "../../../handover/attachment-locks.ts";
import { parseCall } from "../../../handover/call-body.ts";
import { DeleteQueueFiles } from "../../../handover/delete-queue-files.ts";
import type { EndpointRecord } from "../../../handover/record.ts";
import { hostScopeFiles } from "../../../ipam-plugin/host-scope/files.ts";
import { openHostScope } from "../../../ipam-plugin/host-scope/open.ts";
import { hostPrefix, parseAddress } from "../../../lib/addresses/address.ts";
import { type AttachmentId, fileKey } from "../../../lib/cni/attachment-id.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { resolveAddCall } from "../../../main-plugin/call.ts";
import { serve } from "../../../main-plugin/serve.ts";
import { endpointOf, readWorkload, writeRecord } from "../../../main-plugin/workload.ts";
import type { Known } from "../explain/attachments.ts";
import { withDesired } from "../explain/look.ts";
import type { Sources } from "../explain/sources.ts";

/** What a repair says about each thing that it did, or did not do. */
export interface RepairNote {
  readonly code: StatusCode;
  readonly message: string;
}

const LIMIT_MS = 60_000;
const LOOK_MS = 100;

/** Has the agent compare and mend the link, and waits until it has. @throws AgentApiError; TortieError `build-timeout` */
export async function mendByAgent(client: AgentClient, id: number): Promise<readonly RepairNote[]> {
  const reason = `tortiectl repair ${crypto.randomUUID().slice(0, 8)}`;
  const params = { id: String(id) };
  await client.call("buildEndpoint", { params, body: { level: 1, reason } });
  for (const end = performance.now() + LIMIT_MS; performance.now() < end; await Bun.sleep(LOOK_MS)) {
    const { body: log } = await client.call("getEndpointLog", { params });
    const done = log.findIndex(
      ({ message, code }) => message.includes(reason) && (message.startsWith("Successfully") || code === "Failure"),
    );
    const failed = log.findIndex(({ code, message }) => code === "Failure" && message.startsWith("Error regenerating"));
    const begun = log.findIndex(
      ({ message, state }) => message === reason || (message.includes(reason) && state === "waiting-to-regenerate"),
    );
    if (done < 0 && !(failed >= 0 && begun >= 0 && failed < begun)) continue;
    const since = begun < 0 ? done + 1 : begun;
    return log
      .slice(0, since)
      .reverse()
      .filter(({ message }) => !/regenerat/i.test(message))
      .map(({ code, message }) => ({ code, message }));
  }
  throw new TortieError("build-timeout", `the agent has not mended endpoint ${id} within ${LIMIT_MS / 1000} s`);
}

/** Removes an endpoint whose container is gone, as the agent's own sweep does. @throws AgentApiError */
export async function removeByAgent(client: AgentClient, id: number): Promise<readonly RepairNote[]> {
  const { status, body } = await client.call("deleteEndpoint", { params: { id: String(id) } });
  if (status === 200) return [{ code: "OK", message: "removed by the agent, which has given its addresses back" }];
  return [{ code: "Warning", message: `the agent met ${body} errors, and repeats the removal until nothing is left` }];
}

/** Outlasts the agent's own limit for a comparison. */
const COMPARING_MS = 25_000;
const UNTIL_HELD_SECONDS = 5;

/**
 * Has the agent make the policy's table as it must be.
 * @param hostInterface whose pod is meant; `undefined`: all
 * @throws AgentApiError
 */
export async function mendPolicy(client: AgentClient, hostInterface: string | undefined): Promise<readonly RepairNote[]> {
  const { body: table } = await client.call("mendPolicyTable", { signal: AbortSignal.timeout(COMPARING_MS) });
  const { body: held } = await client.call("waitForPolicy", { query: { timeout: UNTIL_HELD_SECONDS } });
  const waiting = held.pending.filter((one) => hostInterface === undefined || one["host-interface"] === hostInterface);
  return [
    ...table.differences.map((one) => ({ code: "OK" as const, message: `mended: ${one}` })),
    ...waiting.map((one) => ({ code: "Warning" as const, message: `${one["host-interface"]} stays closed: ${one.reason}` })),
  ];
}

/** Keeps what runs without an agent apart from plugins, and from what waits for the agent. */
async function holding<T>(
  { run }: Sources,
  attachment: AttachmentId,
  work: (hold: () => Promise<Disposable | undefined>) => Promise<T>,
): Promise<T> {
  const locks = new AttachmentLocks(run.attachments);
  const key = fileKey(attachment);
  using _held = await locks.take(key, { limitMs: LIMIT_MS / 2 });
  const queue = new DeleteQueueFiles(run.deleteQueue);
  // The process holds the lock already; a DEL that waits wins over a link that would be made again.
  return await work(async () => (queue.find(key) === undefined ? locks.take(key) : undefined));
}

/** Holds an endpoint for a mending without an agent. */
class LoneEndpoint implements Mendable {
  readonly state = "ready";
  readonly notes: RepairNote[] = [];
  readonly #keep: (record: EndpointRecord) => void;
  #record: EndpointRecord;

  constructor(record: EndpointRecord, keep: (record: EndpointRecord) => void) {
    this.#record = record;
    this.#keep = keep;
  }

  get record(): EndpointRecord {
    return this.#record;
  }

  transition(): boolean {
    return true;
  }

  note(code: StatusCode, _type: unknown, message: string): void {
    this.notes.push({ code, message });
  }

  write(record: EndpointRecord): EndpointRecord {
    this.#record = { ...record, updatedAt: new Date().toISOString() };
    this.#keep(this.#record);
    return this.#record;
  }
}

export async function mendAlone({ record: found, source }: Known, sources: Sources): Promise<readonly RepairNote[]> {
  const { run, dataplane, hosts } = sources;
  const record = await withDesired(found, sources);
  const keep = (changed: EndpointRecord) => {
    if (source === "agent") new RecordStore(`${run.path}/state`).write(changed);
  };
  const endpoint = new LoneEndpoint(record, keep);
  const grants = new StoreWitness({ hosts, files: () => openHostScope(hostScopeFiles(run.path)).files });
  await holding(sources, record.attachment, (hold) => mendLink(endpoint, { dataplane, grants, hold }, AbortSignal.timeout(LIMIT_MS)));
  return endpoint.notes;
}

/** Writes what the datastore, in a cluster the pod, says of the attachment, as its ADD did. @throws DatastoreError; TortieError */
export async function rewriteRecord({ record }: Known, sources: Sources): Promise<readonly RepairNote[]> {
  const { call, host } = servedOf(record, sources, "CHECK");
  const addCall = resolveAddCall(call);
  const addresses = record.addresses.flatMap(({ address }) => parseAddress(address) ?? []).map(hostPrefix);
  await holding(sources, record.attachment, async () => {
    const workload = await readWorkload(addCall, host);
    await writeRecord(endpointOf(addCall, workload, { addresses }, record.podMac ?? ""), workload, host);
  });
  return [{ code: "OK", message: `the datastore's record names ${record.addresses.map(({ address }) => address).join(", ")} again` }];
}

/** Removes what a container that is gone has left, by the flow of its DEL. @throws what a DEL throws */
export async function removeAlone({ record, source }: Known, sources: Sources): Promise<readonly RepairNote[]> {
  const { call, host } = servedOf(record, sources, "DEL");
  await holding(sources, record.attachment, async () => {
    await serve(call, host);
    if (source === "agent") new RecordStore(`${sources.run.path}/state`).retire(record.id, Date.now());
  });
  return [{ code: "OK", message: "removed as by its DEL, and its addresses are given back" }];
}

/** @throws TortieError `container-unknown` where nobody knows the network that it was attached to */
export function servedOf({ request, attachment }: EndpointRecord, { hosts }: Pick<Sources, "hosts">, verb: "CHECK" | "DEL"): ServedCall {
  if (request?.call !== undefined) return resolveCall(parseCall(request.call, verb), { hosts });
  const next = `put its list back into the directory of network configurations, or give another one with --net-dir`;
  throw new TortieError("container-unknown", `no list of this host has the network ${attachment.network}, of which its DEL is made`, {
    next,
  });
}
