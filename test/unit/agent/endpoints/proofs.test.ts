/** What an endpoint's record says is proven before it is used: its sandbox, and who granted its addresses. */

import { rmSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { StoreWitness } from "../../../../agent/attachments/grant-witness.ts";
import { GrantedAddresses, lostAddresses } from "../../../../agent/endpoints/mend-link.ts";
import { isSandboxGone, isUnproven, openRecorded } from "../../../../agent/endpoints/sandbox.ts";
import type { RecordedAddress } from "../../../../handover/record.ts";
import { createIpamHost, type IpamHost } from "../../../../ipam-plugin/host.ts";
import { TortieError } from "../../../../lib/errors/errors.ts";
import { Hosts } from "../../../../main-plugin/hosts.ts";
import { Cluster } from "../../../support/cluster.ts";
import { recordOf } from "../../../support/endpoint-record.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

describe("The sandbox of a record", () => {
  const directory = fresh(() => new TemporaryDirectory());

  const seen = (path: string) => {
    const { dev, ino } = statSync(path);
    return { path, dev: String(dev), ino: String(ino), isVisible: true };
  };

  it("is gone when the agent has seen it and its path leads nowhere or elsewhere, and only then", () => {
    const netns = seen(directory.path);
    const gone = (changes: Partial<typeof netns> = {}) => isSandboxGone({ netns: { ...netns, ...changes } });
    expect([gone(), gone({ ino: "1" }), gone({ ino: "1", isVisible: false })]).toEqual([false, true, false]);
    expect(isSandboxGone({ netns: { path: join(directory.path, "nothing"), isVisible: true } })).toBe(false);
    symlinkSync(join(directory.path, "loop"), join(directory.path, "loop"));
    expect(gone({ path: join(directory.path, "loop") })).toBe(false);
    rmSync(directory.path, { recursive: true });
    expect(gone()).toBe(true);
  });

  it("that nobody has seen, or that is no namespace, is not proven", () => {
    for (const netns of [{ path: directory.path }, seen(directory.path)]) {
      let thrown: unknown;
      try {
        openRecorded({ netns });
      } catch (error) {
        thrown = error;
      }
      expect(isUnproven(thrown)).toBe(true);
    }
    expect(isUnproven(new TortieError("netconf-value", "x"))).toBe(false);
  });
});

const [FIRST, SECOND, OWN]: readonly RecordedAddress[] = [
  { address: "10.0.0.1", family: 4, grant: "block", handle: "net1.c1" },
  { address: "10.0.0.2", family: 4, grant: "block", handle: "net1.c1" },
  { address: "10.9.0.1", family: 4, grant: "external", isUngranted: true },
];

describe("The addresses of a record", () => {
  it("are proven one by one, but for those that nobody granted, and those that are lost are named", async () => {
    const record = recordOf(4, { addresses: [FIRST, SECOND, OWN].flatMap((one) => one ?? []) });
    const asked: string[] = [];
    const witness = (lost: readonly string[]) => ({
      isGranted: async (_: unknown, { address }: RecordedAddress) => {
        asked.push(address);
        return !lost.includes(address);
      },
    });
    expect((await GrantedAddresses.prove(record, witness([]))).addresses).toEqual(["10.0.0.1", "10.0.0.2", "10.9.0.1"]);
    expect(asked).toEqual(["10.0.0.1", "10.0.0.2"]);
    expect(await lostAddresses(record, witness(["10.0.0.2", "10.9.0.1"]))).toEqual(["10.0.0.2"]);
    await expect(GrantedAddresses.prove(record, witness(["10.0.0.2"]))).rejects.toMatchObject({
      word: "address-lost",
      message: expect.stringContaining("10.0.0.2 not granted"),
    });
  });

  it("of a block are the handle's that holds them now; who cannot be asked has not denied it", async () => {
    const cluster = await Cluster.create();
    await cluster.assignIp("node-a", "net1.c1", "10.0.0.1");
    const ipam = createIpamHost({ datastore: cluster.observed, log: { error() {} } });
    const parts = { hosts: new Hosts({ log: { error() {} } }), files: () => ({ read: async () => undefined }) };
    class Witness extends StoreWitness {
      override ipamOf(): Promise<IpamHost> {
        return Promise.resolve(ipam);
      }
    }
    const witness = new Witness(parts);
    const isGranted = (changes: Partial<RecordedAddress>) =>
      witness.isGranted(recordOf(4), { address: "10.0.0.1", family: 4, grant: "block", handle: "net1.c1", ...changes });
    expect([
      await isGranted({}),
      await isGranted({ handle: "net1.c2" }),
      await isGranted({ address: "10.0.0.2" }),
      await isGranted({ address: "172.16.0.1" }),
      await isGranted({ address: "nonsense" }),
    ]).toEqual([true, false, false, false, false]);
    cluster.fateOf = () => {
      throw new TortieError("datastore-object-invalid", "arranged");
    };
    await expect(isGranted({})).rejects.toMatchObject({ message: "arranged" });
  });
});
