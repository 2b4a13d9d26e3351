/**
 * What the allocator and the plugins need of a driver (design §6), said once: every driver's test calls this with a way to reach
 * its store, and must pass it unchanged.
 */
import type { AffinityKey, Collection, Datastore, Versioned } from "../../lib/datastore/datastore.ts";
import { DatastoreError, type DatastoreFailure } from "../../lib/datastore/errors.ts";
import type { BlockAffinity } from "../../lib/datastore/resources.ts";
import { fresh } from "./fixtures.ts";
import { emptyBlock, fullBlock, sampleAffinity, sampleBlock, sampleEndpoint, samplePool } from "./samples.ts";

/** An empty store, reached by two clients that share nothing else. */
export interface ConformanceSubject extends AsyncDisposable {
  readonly datastore: Datastore;
  readonly other: Datastore;
}

export interface ConformanceOptions {
  /** false: endpoints are made of pods (Kubernetes), and cannot be created. */
  readonly hasOwnEndpoints: boolean;
}

/** Two clients that end together. */
export function bothOf(datastore: Datastore & AsyncDisposable, other: Datastore & AsyncDisposable): ConformanceSubject {
  return {
    datastore,
    other,
    async [Symbol.asyncDispose]() {
      await datastore[Symbol.asyncDispose]();
      await other[Symbol.asyncDispose]();
    },
  };
}

/** Registers the suite under `describe`; `open` is called for every test. */
export function describeDatastore(name: string, open: () => Promise<ConformanceSubject>, options: ConformanceOptions): void {
  describe(`${name} as a datastore`, () => {
    const subject = fresh(open);

    describeKind("blocks", subject, (store) => store.blocks, {
      keys: ["10.40.0.8/29", "fd80:24e2:f998:72d6::8/125"],
      first: (cidr) => sampleBlock({ cidr }),
      second: (cidr) => emptyBlock(cidr, 8),
    });
    describeKind<AffinityKey, BlockAffinity>("affinities", subject, (store) => store.affinities, {
      keys: [
        { owner: { type: "host", name: "worker-1" }, cidr: "10.40.0.8/29" },
        { owner: { type: "virtual", name: "load-balancer" }, cidr: "fd80:24e2:f998:72d6::/122" },
      ],
      first: ({ owner, cidr }) => sampleAffinity(owner.name, cidr, { owner, state: "pending" }),
      second: ({ owner, cidr }) => sampleAffinity(owner.name, cidr, { owner, state: "confirmed" }),
    });
    describeKind("handles", subject, (store) => store.handles, {
      keys: ["k8s-pod-network.7f3c9d0e5b1a", `net.${"a".repeat(240)}`],
      first: (id) => ({ id, blocks: { "10.40.0.8/29": 1 } }),
      second: (id) => ({ id, blocks: { "10.40.0.8/29": 2, "fd80::/122": 1 } }),
    });
    if (options.hasOwnEndpoints) {
      describeKind("endpoints", subject, (store) => store.endpoints, {
        keys: [
          { namespace: "shop", name: "worker--1-k8s-cart--x2x8q-eth0" },
          { namespace: "default", name: "worker--1-cni-c1-eth0" },
        ],
        first: ({ namespace, name: endpoint }) => sampleEndpoint(namespace, endpoint),
        second: ({ namespace, name: endpoint }) => sampleEndpoint(namespace, endpoint, { ipNetworks: [], ports: [], labels: {} }),
      });
    }
    describeTraits(subject);
    describeBlocks(subject);
    describeAffinities(subject);
    describeLists(subject);
    if (options.hasOwnEndpoints) {
      describeEndpoints(subject);
      describeRecords(subject);
    }
  });
}

interface Kind<K, T> {
  readonly keys: readonly [K, K];
  /** Two different states of the object at a key. */
  readonly first: (key: K) => T;
  readonly second: (key: K) => T;
}

/** What holds for every collection. */
function describeKind<K, T>(
  name: string,
  subject: ConformanceSubject,
  collectionOf: (store: Datastore) => Collection<K, T>,
  { keys: [key, otherKey], first, second }: Kind<K, T>,
): void {
  describe(name, () => {
    const ours = (): Collection<K, T> => collectionOf(subject.datastore);
    const theirs = (): Collection<K, T> => collectionOf(subject.other);

    it("says that an object is missing instead of failing", async () => {
      expect(await ours().get(key)).toBeUndefined();
    });

    it("returns what was created, to every client, at the revision that create gave", async () => {
      const made = await ours().create(key, first(key));
      await ours().create(otherKey, second(otherKey));
      expect(made.value).toEqual(first(key));
      expect(await ours().get(key)).toEqual({ value: first(key), revision: made.revision });
      expect(await theirs().get(key)).toEqual({ value: first(key), revision: made.revision });
      expect((await theirs().get(otherKey))?.value).toEqual(second(otherKey));
    });

    it("refuses to create what exists, and keeps it as it was", async () => {
      const made = await ours().create(key, first(key));
      await expectFailure(theirs().create(key, second(key)), "already-exists");
      expect(await ours().get(key)).toEqual(made);
    });

    it("updates at the known revision and gives a new one", async () => {
      const made = await ours().create(key, first(key));
      const updated = await theirs().update(key, second(key), made.revision);
      expect(updated.revision).not.toBe(made.revision);
      expect(await ours().get(key)).toEqual({ value: second(key), revision: updated.revision });
      const again = await ours().update(key, first(key), updated.revision);
      expect(await theirs().get(key)).toEqual({ value: first(key), revision: again.revision });
      expect(new Set([made.revision, updated.revision, again.revision]).size).toBe(3);
    });

    it("refuses an update or a delete at an older revision, and changes nothing", async () => {
      const made = await ours().create(key, first(key));
      const updated = await ours().update(key, second(key), made.revision);
      await expectFailure(theirs().update(key, first(key), made.revision), "conflict");
      await expectFailure(theirs().delete(key, made.revision), "conflict");
      expect(await ours().get(key)).toEqual({ value: second(key), revision: updated.revision });
    });

    it("refuses an update or a delete of what is missing", async () => {
      const made = await ours().create(key, first(key));
      await theirs().delete(key, made.revision);
      await expectFailure(ours().update(key, second(key), made.revision), "not-found");
      await expectFailure(ours().delete(key, made.revision), "not-found");
      expect(await ours().get(key)).toBeUndefined();
    });

    it("never gives an object that was made again a revision of the one before it", async () => {
      const seen: string[] = [];
      for (let life = 0; life < 3; life++) {
        const made = await ours().create(key, first(key));
        const updated = await ours().update(key, second(key), made.revision);
        seen.push(made.revision, updated.revision);
        await ours().delete(key, updated.revision);
      }
      expect(new Set(seen).size).toBe(seen.length);
      const last = await ours().create(key, first(key));
      for (const revision of seen) await expectFailure(ours().update(key, second(key), revision), "conflict");
      expect((await ours().get(key))?.revision).toBe(last.revision);
    });

    it("lets one of many creates win, and one of many updates of a revision", async () => {
      const creates = await Promise.allSettled(
        Array.from({ length: 12 }, (_, racer) => (racer % 2 === 0 ? ours() : theirs()).create(key, racer < 6 ? first(key) : second(key))),
      );
      const made = onlyWinner(creates, "already-exists");
      // Not what is there already: a store may take a write that changes nothing from everybody, and keep the revision.
      const next = creates.findIndex(({ status }) => status === "fulfilled") < 6 ? second(key) : first(key);
      const updates = await Promise.allSettled(
        Array.from({ length: 12 }, (_, racer) => (racer % 2 === 0 ? ours() : theirs()).update(key, next, made.revision)),
      );
      expect((await ours().get(key))?.revision).toBe(onlyWinner(updates, "conflict").revision);
    });

    it("leaves other objects alone", async () => {
      const other = await ours().create(otherKey, first(otherKey));
      const made = await ours().create(key, first(key));
      await ours().delete(key, made.revision);
      expect(await theirs().get(otherKey)).toEqual({ value: first(otherKey), revision: other.revision });
    });
  });
}

function describeTraits(subject: ConformanceSubject): void {
  describe("its traits", () => {
    it("are the same for every client", () => {
      const { datastore, other } = subject;
      expect({ ...other.traits }).toEqual({ ...datastore.traits });
    });

    it("say whether handle ids that differ in case are one object", async () => {
      const { handles, traits } = subject.datastore;
      await handles.create("net.Pod-1", { id: "net.Pod-1", blocks: { "10.40.0.0/26": 1 } });
      const other = await handles.get("net.pod-1");
      expect(other?.value.id).toBe(traits.foldsHandleCase ? "net.Pod-1" : undefined);
    });

    it("promise no virtual machines that are not there", async () => {
      const { virtualMachines } = subject.datastore;
      const key = { namespace: "default", name: "virt-launcher-vm-x2x8q" };
      for (const kind of ["pods", "instances", "machines"] as const) expect(await virtualMachines[kind].get(key)).toBeUndefined();
    });
  });
}

function describeBlocks(subject: ConformanceSubject): void {
  describe("a block", () => {
    it.each([0n, 1n, 2n ** 53n - 1n, 2n ** 53n + 1n, 1787405600123456789n, 2n ** 63n - 1n])(
      "keeps sequence number %p to the last digit",
      async (number) => {
        const { blocks } = subject.datastore;
        const block = emptyBlock("10.40.0.8/29", 8, {
          allocations: [0, null, null, null, null, null, null, null],
          unallocated: [1, 2, 3, 4, 5, 6, 7],
          attributes: [{ handleId: "net.c1" }],
          sequenceNumber: number,
          sequenceNumberForAllocation: { 0: number },
        });
        await blocks.create(block.cidr, block);
        expect((await subject.other.blocks.get(block.cidr))?.value).toEqual(block);
      },
    );

    it("keeps the order of its free ordinals and of its attributes", async () => {
      const { blocks } = subject.datastore;
      const block = sampleBlock({ unallocated: [7, 4, 2, 6, 5] });
      await blocks.create(block.cidr, block);
      const read = (await subject.other.blocks.get(block.cidr))?.value;
      expect(read?.unallocated).toEqual([7, 4, 2, 6, 5]);
      expect(read?.attributes).toEqual(block.attributes);
    });

    it("may have no owner, and then says nothing of one", async () => {
      const { blocks } = subject.datastore;
      const owned = sampleBlock();
      const { affinity: _owner, affinityClaimTime: _time, ...ownerless } = owned;
      const made = await blocks.create(owned.cidr, owned);
      await blocks.update(owned.cidr, ownerless, made.revision);
      const read = (await subject.other.blocks.get(owned.cidr))?.value;
      expect(read).toEqual(ownerless);
      expect(read !== undefined && "affinity" in read).toBe(false);
      expect(read !== undefined && "affinityClaimTime" in read).toBe(false);
    });

    it("can be owned by the virtual owner", async () => {
      const { blocks } = subject.datastore;
      const block = sampleBlock({ affinity: { type: "virtual", name: "load-balancer" } });
      await blocks.create(block.cidr, block);
      expect((await subject.other.blocks.get(block.cidr))?.value.affinity).toEqual(block.affinity);
    });

    it("can be copied with a change and written back", async () => {
      const { blocks } = subject.datastore;
      await blocks.create("10.40.0.8/29", sampleBlock());
      const read = await subject.other.blocks.get("10.40.0.8/29");
      if (read === undefined) throw new Error("the block is missing");
      const changed = { ...read.value, sequenceNumber: read.value.sequenceNumber + 1n };
      await subject.other.blocks.update("10.40.0.8/29", changed, read.revision);
      expect((await blocks.get("10.40.0.8/29"))?.value).toEqual(sampleBlock({ sequenceNumber: 1787405600123456007n }));
    });

    it("holds 4096 addresses as well as one", async () => {
      const { blocks } = subject.datastore;
      for (const block of [emptyBlock("10.48.0.0/20", 4096), emptyBlock("10.41.0.7/32", 1), fullBlock("10.42.0.0/26", "worker-1")]) {
        await blocks.create(block.cidr, block);
        expect((await subject.other.blocks.get(block.cidr))?.value).toEqual(block);
      }
    });

    it("is found by its owner while it has room", async () => {
      const { affinities, blocks, traits } = subject.datastore;
      expect(blocks.listWithRoom !== undefined).toBe(traits.findsRoom);
      if (!traits.findsRoom) return;
      const owner = { type: "host", name: "worker-1" } as const;
      const find = async (family: 4 | 6): Promise<readonly string[]> =>
        valuesOf((await subject.other.blocks.listWithRoom?.(owner, family)) ?? []).map(({ cidr }) => cidr);
      for (const cidr of ["10.42.0.0/26", "10.40.0.8/29", "fd80::/122"])
        await affinities.create({ owner, cidr }, sampleAffinity("worker-1", cidr));
      const full = fullBlock("10.42.0.0/26", "worker-1");
      const made = await blocks.create(full.cidr, full);
      await blocks.create("10.40.0.8/29", sampleBlock());
      await blocks.create("10.40.0.0/29", emptyBlock("10.40.0.0/29", 8, { affinity: { type: "host", name: "worker-10" } }));
      await blocks.create("10.40.0.16/29", emptyBlock("10.40.0.16/29", 8));
      await blocks.create("fd80::/122", emptyBlock("fd80::/122", 64, { affinity: owner }));
      expect(await find(4)).toEqual(["10.40.0.8/29"]);
      expect(await find(6)).toEqual(["fd80::/122"]);

      const cooling = { ...full, attributes: [...full.attributes.slice(0, 63), { releasedAt: "2026-08-22T13:41:07Z" }] };
      const updated = await blocks.update(full.cidr, cooling, made.revision);
      expect(await find(4)).toEqual(["10.40.0.8/29", "10.42.0.0/26"]);
      const [, found] = (await subject.other.blocks.listWithRoom?.(owner, 4)) ?? [];
      expect(found).toEqual({ value: cooling, revision: updated.revision });
      const { affinity: _owner, ...ownerless } = cooling;
      await blocks.update(full.cidr, ownerless, updated.revision);
      expect(await find(4)).toEqual(["10.40.0.8/29"]);
    });

    it("is listed with every other, whole", async () => {
      const { blocks } = subject.datastore;
      const cidrs = Array.from({ length: 40 }, (_, index) => `10.40.${index}.0/26`);
      for (const cidr of cidrs) await blocks.create(cidr, fullBlock(cidr, "worker-1"));
      const listed = await subject.other.blocks.list();
      expect(listed.map(({ value }) => value.cidr).sort()).toEqual([...cidrs].sort());
      for (const { value, revision } of listed) {
        expect(value).toEqual(fullBlock(value.cidr, "worker-1"));
        expect((await blocks.get(value.cidr))?.revision).toBe(revision);
      }
    });
  });
}

function describeAffinities(subject: ConformanceSubject): void {
  describe("the affinities of an owner", () => {
    it("are found by owner and family, in every state, and by nothing else", async () => {
      const { affinities } = subject.datastore;
      const rows = [
        sampleAffinity("node-a", "10.40.0.64/26", { state: "pending" }),
        sampleAffinity("node-a", "10.40.0.0/26"),
        sampleAffinity("node-a", "10.40.0.128/26", { state: "pendingDeletion" }),
        sampleAffinity("node-a", "fd80::/122"),
        sampleAffinity("node-a-1", "10.40.1.0/26"),
        sampleAffinity("node", "10.40.2.0/26"),
        sampleAffinity("node-a", "10.40.3.0/26", { owner: { type: "virtual", name: "node-a" } }),
      ];
      for (const row of rows) await affinities.create(row, row);
      const owner = { type: "host", name: "node-a" } as const;
      const { other } = subject;
      expect(valuesOf(await other.affinities.listByOwner(owner, 4))).toEqual([rows[1], rows[2], rows[0]]);
      expect(valuesOf(await other.affinities.listByOwner(owner, 6))).toEqual([rows[3]]);
      expect(valuesOf(await other.affinities.listByOwner({ type: "virtual", name: "node-a" }, 4))).toEqual([rows[6]]);
      expect(await other.affinities.listByOwner({ type: "host", name: "nobody" }, 4)).toEqual([]);
      expect((await other.affinities.listAll()).length).toBe(rows.length);
    });

    it("are found for the longest node names too", async () => {
      const { affinities } = subject.datastore;
      const long = `n${"-very-long".repeat(25)}`;
      for (const name of [`${long}a`, `${long}b`]) {
        const row = sampleAffinity(name, "10.40.0.0/26");
        await affinities.create(row, row);
      }
      expect(valuesOf(await affinities.listByOwner({ type: "host", name: `${long}b` }, 4))).toEqual([
        sampleAffinity(`${long}b`, "10.40.0.0/26"),
      ]);
    });

    it("are none without labels when the store writes them itself", async () => {
      const { affinities } = subject.datastore;
      const row = sampleAffinity("node-a", "10.40.0.0/26");
      await affinities.create(row, row);
      expect(await subject.other.affinities.listUnlabelled()).toEqual([]);
    });

    it("can be updated and deleted at the revisions that a list gave", async () => {
      const { affinities } = subject.datastore;
      const row = sampleAffinity("node-a", "10.40.0.0/26", { state: "pending" });
      await affinities.create(row, row);
      const [listed] = await subject.other.affinities.listByOwner(row.owner, 4);
      if (listed === undefined) throw new Error("the affinity is missing");
      const confirmed = await affinities.update(row, { ...row, state: "confirmed" }, listed.revision);
      await subject.other.affinities.delete(row, confirmed.revision);
      expect(await affinities.listAll()).toEqual([]);
    });
  });
}

function describeLists(subject: ConformanceSubject): void {
  describe("its lists", () => {
    it("are empty in an empty store", async () => {
      const { datastore } = subject;
      expect(await datastore.blocks.list()).toEqual([]);
      expect(await datastore.handles.list()).toEqual([]);
      expect(await datastore.affinities.listAll()).toEqual([]);
      expect(await datastore.pools.list()).toEqual([]);
      expect(await datastore.reservations.list()).toEqual([]);
      expect(await datastore.ipamConfiguration.get("default")).toBeUndefined();
    });

    it("show each change of either client, however often they are asked for", async () => {
      const { datastore, other } = subject;
      const states: string[] = [];
      const look = async (store: Datastore): Promise<void> => {
        states.push((await store.affinities.listByOwner({ type: "host", name: "node-a" }, 4)).map(({ value }) => value.state).join(","));
      };
      const row = sampleAffinity("node-a", "10.40.0.0/26", { state: "pending" });
      for (const store of [datastore, datastore, datastore]) await look(store);
      const made = await other.affinities.create(row, row);
      await look(datastore);
      const confirmed = await datastore.affinities.update(row, { ...row, state: "confirmed" }, made.revision);
      for (const store of [datastore, other, datastore, other]) await look(store);
      await other.affinities.delete(row, confirmed.revision);
      for (const store of [datastore, other]) await look(store);
      expect(states).toEqual(["", "", "", "pending", "confirmed", "confirmed", "confirmed", "confirmed", "", ""]);
    });

    it("hold exactly what is there after any changes", async () => {
      const { datastore, other } = subject;
      const expected = new Map<string, number>();
      for (let round = 0; round < 30; round++) {
        const id = `net.c${(round * 7) % 11}`;
        const store = round % 3 === 0 ? other : datastore;
        const known = await store.handles.get(id);
        if (known === undefined) await store.handles.create(id, { id, blocks: { "10.40.0.0/26": round + 1 } });
        else if (round % 4 === 0) await store.handles.delete(id, known.revision);
        else await store.handles.update(id, { id, blocks: { "10.40.0.0/26": round + 1 } }, known.revision);
        if (known !== undefined && round % 4 === 0) expected.delete(id);
        else expected.set(id, round + 1);
        for (const each of [datastore, other]) {
          const listed = valuesOf(await each.handles.list()).map((handle) => [handle.id, handle.blocks["10.40.0.0/26"]]);
          expect(listed).toEqual([...expected].sort(([a], [b]) => (a < b ? -1 : 1)));
        }
      }
    });

    it("hold the handles of all clients", async () => {
      const { datastore, other } = subject;
      await datastore.handles.create("net.c1", { id: "net.c1", blocks: { "10.40.0.0/26": 1 } });
      await other.handles.create("net.c2", { id: "net.c2", blocks: { "10.40.0.0/26": 2 } });
      expect(valuesOf(await datastore.handles.list()).map(({ id }) => id)).toEqual(["net.c1", "net.c2"]);
    });

    it("give the pools in name order", async () => {
      const { datastore, other } = subject;
      const pools = [samplePool("b", "10.41.0.0/16"), samplePool("a", "10.42.0.0/16"), samplePool("b-6", "fd80::/64", { disabled: true })];
      for (const pool of pools) await datastore.pools.create(pool.name, pool);
      expect(valuesOf(await other.pools.list())).toEqual([pools[1], pools[0], pools[2]]);
      expect((await other.pools.get("b-6"))?.value).toEqual(pools[2]);
    });

    it("give the pools that a look at all of them has decided on", async () => {
      const { datastore, other } = subject;
      expect(datastore.pools.reconcile !== undefined).toBe(datastore.traits.poolsFrom === "netconf");
      if (datastore.traits.poolsFrom !== "netconf") return;
      const pools = [samplePool("a", "10.41.0.0/16"), samplePool("b", "10.42.0.0/16"), samplePool("c", "10.43.0.0/16")] as const;
      const [a, b, c] = pools;
      await datastore.pools.create(a.name, a);
      await datastore.pools.create(b.name, b);
      await datastore.pools.reconcile?.((stored) => {
        expect(stored).toEqual([a, b]);
        return [{ ...b, natOutgoing: !b.natOutgoing }, c];
      });
      expect(valuesOf(await other.pools.list())).toEqual([a, { ...b, natOutgoing: !b.natOutgoing }, c]);
      const refusal = new Error("the pools contradict each other");
      await expect(
        other.pools.reconcile?.(() => {
          throw refusal;
        }),
      ).rejects.toBe(refusal);
      expect((await datastore.pools.list()).length).toBe(3);
    });

    it("give reservations and the configuration as they were written", async () => {
      const { datastore, other } = subject;
      const reservation = { name: "keep-gateways", reservedCIDRs: ["10.40.0.1/32", "10.40.0.240/28"] };
      const configuration = {
        strictAffinity: true,
        autoAllocateBlocks: true,
        maxBlocksPerHost: 2,
        kubeVirtVMAddressPersistence: "Enabled",
        ipCooldownSeconds: 60,
      } as const;
      await datastore.reservations.create(reservation.name, reservation);
      const made = await datastore.ipamConfiguration.create("default", configuration);
      expect(valuesOf(await other.reservations.list())).toEqual([reservation]);
      expect((await other.ipamConfiguration.get("default"))?.value).toEqual(configuration);
      await other.ipamConfiguration.update("default", { ...configuration, ipCooldownSeconds: 0 }, made.revision);
      expect((await datastore.ipamConfiguration.get("default"))?.value.ipCooldownSeconds).toBe(0);
    });
  });
}

function describeEndpoints(subject: ConformanceSubject): void {
  it("finds endpoints by namespace and the start of their name, taken literally", async () => {
    const { endpoints } = subject.datastore;
    const names = ["node-a-k8s-web-eth0", "node-a-k8s-web_2-eth0", "node-a-k8s-webx-eth0", "node-a-k8s-wea-eth0"];
    for (const name of names) await endpoints.create({ namespace: "shop", name }, sampleEndpoint("shop", name));
    await endpoints.create({ namespace: "shop2", name: "node-a-k8s-web-eth0" }, sampleEndpoint("shop2", "node-a-k8s-web-eth0"));
    const found = async (prefix: string): Promise<string[]> =>
      valuesOf(await subject.other.endpoints.listByPrefix("shop", prefix)).map(({ name }) => name);
    expect(await found("node-a-k8s-web-")).toEqual(["node-a-k8s-web-eth0"]);
    expect(await found("node-a-k8s-web_")).toEqual(["node-a-k8s-web_2-eth0"]);
    expect(await found("node-a-k8s-web")).toEqual([names[0], names[1], names[2]]);
    expect(await found("%")).toEqual([]);
    expect((await subject.other.endpoints.list()).length).toBe(5);
  });
}

function describeRecords(subject: ConformanceSubject): void {
  describe("the record of an endpoint", () => {
    const key = { namespace: "shop", name: "worker--1-k8s-cart--x2x8q-eth0" };
    const of = (containerID: string, ...ipNetworks: string[]) => sampleEndpoint(key.namespace, key.name, { containerID, ipNetworks });

    it("is none before it is written, and what was written last after that", async () => {
      const { datastore, other } = subject;
      expect(await datastore.records.read(key)).toBeUndefined();
      await datastore.records.write(of("c1", "10.40.0.8/32"));
      await other.records.write(of("c2", "10.40.0.9/32", "fd80::9/128"));
      expect(await datastore.records.read(key)).toMatchObject({ containerID: "c2", ipNetworks: ["10.40.0.9/32", "fd80::9/128"] });
      expect((await other.endpoints.get(key))?.value).toEqual(of("c2", "10.40.0.9/32", "fd80::9/128"));
    });

    it("is cleared by its own container only", async () => {
      const { datastore, other } = subject;
      await datastore.records.write(of("c2", "10.40.0.9/32"));
      expect(await other.records.clear(key, "c1")).toBe("not-ours");
      expect(await datastore.records.read(key)).toMatchObject({ containerID: "c2" });
      expect(await other.records.clear(key, "c2")).toBe("cleared");
      expect(await datastore.records.read(key)).toBeUndefined();
      expect(await datastore.records.clear(key, "c2")).toBe("gone");
    });

    it("that names no container is cleared by every one", async () => {
      const { datastore, other } = subject;
      await datastore.records.write(of("", "10.40.0.9/32"));
      expect(await other.records.clear(key, "c1")).toBe("cleared");
    });

    it("is one of those that were written when many write and clear at once", async () => {
      const { datastore, other } = subject;
      await Promise.all(
        Array.from({ length: 10 }, (_, index) => {
          const { records } = index % 2 === 0 ? datastore : other;
          return index % 5 === 4 ? records.clear(key, `c${index - 1}`) : records.write(of(`c${index}`, "10.40.0.9/32"));
        }),
      );
      const left = await datastore.records.read(key);
      if (left !== undefined) expect(left.containerID).toMatch(/^c\d$/);
      await datastore.records.write(of("last", "10.40.0.9/32"));
      expect(await other.records.read(key)).toMatchObject({ containerID: "last" });
    });
  });
}

function valuesOf<T>(rows: readonly Versioned<T>[]): T[] {
  return rows.map(({ value }) => value);
}

async function expectFailure(attempt: Promise<unknown>, failure: DatastoreFailure): Promise<void> {
  const error = await attempt.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof DatastoreError)) throw new Error(`expected a DatastoreError "${failure}", got ${String(error)}`);
  expect(error.failure).toBe(failure);
}

function onlyWinner<T>(outcomes: readonly PromiseSettledResult<T>[], failure: DatastoreFailure): T {
  const winners = outcomes.filter((outcome) => outcome.status === "fulfilled");
  for (const outcome of outcomes) {
    if (outcome.status === "rejected") expect(outcome.reason).toMatchObject({ failure });
  }
  expect(winners.length).toBe(1);
  const [winner] = winners;
  if (winner === undefined) throw new Error("nobody won");
  return winner.value;
}
