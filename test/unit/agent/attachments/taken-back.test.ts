/** What becomes of the record of an ADD in the agent that fails: it goes only when nothing is left of what it names. */

import type { ServedCall } from "../../../../agent/attachments/call.ts";
import { type AttachmentRecords, addAttachment } from "../../../../agent/attachments/flows.ts";
import { decodeCall } from "../../../../handover/call-body.ts";
import type { EndpointRecord } from "../../../../handover/record.ts";
import { DatastoreError } from "../../../../lib/datastore/errors.ts";
import { Secrets } from "../../../../lib/log/secrets.ts";
import { recordOf } from "../../../support/endpoint-record.ts";
import { fresh } from "../../../support/fixtures.ts";
import { PodNode } from "../../../support/pod-node.ts";

/** Of one attachment. */
class OneRecord implements AttachmentRecords {
  record: EndpointRecord | undefined;
  /** How the record's operations ended. */
  readonly ends: string[] = [];

  find = () => this.record;
  list = () => (this.record === undefined ? [] : [this.record]);
  begin: AttachmentRecords["begin"] = async (attachment) => this.keep(recordOf(1, { ...attachment, phase: "creating" }));
  write = async (record: EndpointRecord) => this.keep(record);
  build = async (record: EndpointRecord) => record;
  commit = async (record: EndpointRecord) => this.keep(record);
  keep = (record: EndpointRecord) => {
    this.record = record;
    return record;
  };
  discard = async () => this.#end("discarded");
  remove = async () => this.#end("removed");
  retry = async () => {
    this.ends.push("kept for another try");
  };

  #end(how: string): void {
    this.record = undefined;
    this.ends.push(how);
  }
}

function servedBy(node: PodNode, signal: AbortSignal): ServedCall {
  const { call, host: parts } = node.parts({ signal });
  const { containerId, interfaceName: ifname, netns, network, stdin } = call.request;
  const given = decodeCall({ protocol: 1, containerId, ifname, netns: { path: netns }, stdin: new TextDecoder().decode(stdin) }, "ADD");
  return {
    given,
    digest: "",
    configDigest: "",
    attachment: { network, containerId, ifname },
    call,
    host: parts,
    log: call.log,
    secrets: new Secrets(),
    warnings: () => 0,
    steps: () => [],
  };
}

const node = fresh(PodNode.forContainers);

/** An ADD whose caller goes away while the link is made. @param meanwhile also happens then */
async function givenUp(meanwhile: () => void): Promise<OneRecord> {
  const records = new OneRecord();
  const abort = new AbortController();
  node.meanwhile = {
    effect: "apply",
    work: () => {
      abort.abort(new Error("nobody waits"));
      meanwhile();
    },
  };
  const { signal } = abort;
  await expect(addAttachment({ served: servedBy(node, signal), sandbox: undefined, records }, signal)).rejects.toThrow();
  return records;
}

describe("The record of an ADD that nobody waits for", () => {
  it("goes when the ADD has taken everything back", async () => {
    const { ends, record } = await givenUp(() => undefined);
    expect([ends, record]).toEqual([["discarded"], undefined]);
    expect(await node.handles()).toEqual({});
  });

  it("C3: stays while an address is left that could not be given back", async () => {
    const { ends, record } = await givenUp(() => {
      node.failure = { effect: "update block", error: new DatastoreError("unauthorized", "arranged") };
    });
    expect(ends).toEqual(["kept for another try"]);
    expect(record).toMatchObject({ phase: "deleting:begun", attachment: { containerId: "c1" } });
    expect(await node.handles()).toEqual({ "net1.c1": 1 });
    expect([...node.links]).toEqual([]);
  });
});
