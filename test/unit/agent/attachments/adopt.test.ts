import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Adoption } from "../../../../agent/attachments/agent-away.ts";
import { AttachmentLocks } from "../../../../handover/attachment-locks.ts";
import { DirectRecords } from "../../../../handover/left-files.ts";
import { type EndpointRecord, NO_ID } from "../../../../handover/record.ts";
import { fileKey } from "../../../../lib/cni/attachment-id.ts";
import { NEVER } from "../../../../lib/system/waiting.ts";
import { recordOf as sampleRecord } from "../../../support/endpoint-record.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";
import { until } from "../../../support/kubernetes/until.ts";

const directory = fresh(() => new TemporaryDirectory());

const recordOf = (containerId: string) => sampleRecord(NO_ID, { attachment: { network: "net1", containerId, ifname: "eth0" } });
const keyOf = (containerId: string) => fileKey({ network: "net1", containerId, ifname: "eth0" });

function world() {
  const records = new DirectRecords(join(directory.path, "direct"));
  const locks = new AttachmentLocks(join(directory.path, "attachments"));
  const adopted: string[] = [];
  const lines: string[] = [];
  const log = { info: (line: string) => lines.push(line), error: (line: string) => lines.push(line) };
  const adopter = {
    async adopt({ attachment: { containerId } }: EndpointRecord) {
      if (containerId === "refused") throw new Error("no id is free");
      adopted.push(containerId);
    },
  };
  const adoption = new Adoption({ records, locks, adopter, log });
  return { records, adoption, adopted, lines, plugin: new AttachmentLocks(join(directory.path, "attachments")) };
}

describe("what direct mode attached", () => {
  it("is taken over once, and its record goes", async () => {
    const { records, adoption, adopted } = world();
    records.write(recordOf("a"));
    records.write(recordOf("a"));
    records.write(recordOf("b"));
    await adoption.all();
    await adoption.all();
    expect(adopted.sort()).toEqual(["a", "b"]);
    expect(records.list().records).toEqual([]);
  });

  it("stays with a plugin that works on it, until it has ended", async () => {
    const { records, adoption, adopted, plugin } = world();
    records.write(recordOf("a"));
    const lock = await plugin.take(keyOf("a"));
    await adoption.all();
    expect(adopted).toEqual([]);
    const asked = adoption.of(recordOf("a").attachment, NEVER);
    lock[Symbol.dispose]();
    await asked;
    expect(adopted).toEqual(["a"]);
  });

  it("keeps its record when it cannot be taken over", async () => {
    const { records, adoption, lines } = world();
    records.write(recordOf("refused"));
    await adoption.all();
    expect(records.has(recordOf("refused").attachment)).toBe(true);
    expect(lines).toEqual([expect.stringContaining("no id is free")]);
  });

  it("is set aside where its record cannot be read, or is another attachment's", async () => {
    const { records, adoption, adopted, lines } = world();
    records.write(recordOf("good"));
    const folder = join(directory.path, "direct");
    writeFileSync(join(folder, `${keyOf("torn")}.json`), '{"format":1');
    writeFileSync(join(folder, `${keyOf("stolen")}.json`), "{}");
    await adoption.all();
    expect(adopted).toEqual(["good"]);
    expect(readdirSync(folder)).toEqual(["bad"]);
    expect(readdirSync(join(folder, "bad"))).toHaveLength(2);
    expect(lines.filter((line) => line.includes("/bad/"))).toHaveLength(2);
  });

  it("is taken over while the agent lives", async () => {
    const { records, adoption, adopted } = world();
    adoption.start();
    records.write(recordOf("late"));
    await until("the record is taken over", () => adopted.includes("late"));
    await adoption.stop();
  });
});
