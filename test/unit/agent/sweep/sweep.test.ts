/** What sweeps remove, and when: on a clock that the test moves, with links and pods as the test says. */

import { rmSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { Sweep, type SweepOptions } from "../../../../agent/sweep/sweep.ts";
import type { AttachedLink } from "../../../../dataplane/dataplane.ts";
import type { HostLink } from "../../../../dataplane/linux/host-facts.ts";
import type { EndpointRecord } from "../../../../handover/record.ts";
import { NEVER } from "../../../../lib/system/waiting.ts";
import { recordOf } from "../../../support/endpoint-record.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const ALIAS = "tortie:net/c1/eth0/default/web";
const HOST_LINK: HostLink = { index: 7, name: "cali1", alias: ALIAS, isUp: true, kind: "veth" };

let clock: FakeClock;
const directory = fresh(() => new TemporaryDirectory());
let links: readonly HostLink[] | Error;
let attached: readonly AttachedLink[];
let records: EndpointRecord[];
let inCache: readonly string[];
let onServer: readonly string[] | Error;
let isComplete: boolean;
let removed: string[];
let found: string[];
let news: boolean[];
let taken: string[];
let sweep: Sweep;

function record(changes: Partial<EndpointRecord> = {}): EndpointRecord {
  const { dev, ino } = statSync(directory.path);
  return recordOf(4, {
    attachment: { network: "net", containerId: "c1", ifname: "eth0" },
    pod: "default/web",
    podUID: "uid-1",
    netns: { path: directory.path, dev: String(dev), ino: String(ino), isVisible: true },
    hostInterface: { name: "cali1", index: 7, alias: ALIAS },
    ...changes,
  });
}

function options(changes: Partial<SweepOptions> = {}): SweepOptions {
  return {
    clock,
    isRestored: () => true,
    isLeftToPlugins: (network) => network === "plugins",
    node: "Node-A",
    records: () => records,
    links: () => {
      if (links instanceof Error) throw links;
      return links;
    },
    dataplane: {
      list: async () => attached,
      remove: async (link) => {
        removed.push(`link ${link.hostInterface}`);
        return {};
      },
    },
    pods: {
      get isComplete() {
        return isComplete;
      },
      uidsOf: () => inCache,
      ask: async () => {
        if (onServer instanceof Error) throw onServer;
        return onServer;
      },
    },
    takeOver: async ({ id }, { index }) => {
      taken.push(`endpoint ${id}: index ${index}`);
    },
    remove: async ({ id }) => {
      removed.push(`endpoint ${id}`);
      records = [];
    },
    onFound(kind, _what, isNew) {
      found.push(kind);
      news.push(isNew);
    },
    ...changes,
  };
}

beforeEach(() => {
  clock = new FakeClock();
  links = [HOST_LINK];
  attached = [];
  records = [record()];
  inCache = ["uid-1"];
  onServer = ["uid-1"];
  isComplete = true;
  removed = [];
  found = [];
  news = [];
  taken = [];
  sweep = new Sweep(options());
});

/** As many sweeps as the time holds. */
async function sweeps(seconds: number): Promise<void> {
  await sweep.run(NEVER);
  for (let time = 60; time <= seconds; time += 60) await nextSweep();
}

/** A minute later. */
async function nextSweep(): Promise<void> {
  await clock.advance(60_000);
  await sweep.run(NEVER);
}

describe("A-G01: an endpoint whose link is gone", () => {
  beforeEach(() => {
    links = [];
  });

  it("is removed at the second look when its sandbox is gone too, and not at the first", async () => {
    rmSync(directory.path, { recursive: true });
    await sweep.run(NEVER);
    await clock.advance(59_000);
    await sweep.run(NEVER);
    expect(removed).toEqual([]);
    await clock.advance(1_000);
    await sweep.run(NEVER);
    expect(removed).toEqual(["endpoint 4"]);
    expect(found).toEqual(["endpoint-without-link"]);
  });

  it("is removed when the path leads to another sandbox by now", async () => {
    records = [record({ netns: { path: directory.path, dev: "1", ino: "1", isVisible: true } })];
    await sweeps(60);
    expect(removed).toEqual(["endpoint 4"]);
  });

  it("is removed when the server says that its pod is gone, or is another one", async () => {
    onServer = ["uid-2"];
    await sweeps(60);
    expect(removed).toEqual(["endpoint 4"]);
  });

  it("stays while sandbox and pod are there: its link is made again", async () => {
    await sweeps(1_200);
    expect(removed).toEqual([]);
  });

  it("stays when the server cannot be asked, or nothing is restored yet", async () => {
    onServer = new Error("500");
    await sweep.run(NEVER);
    await clock.advance(60_000);
    await expect(sweep.run(NEVER)).rejects.toThrow("500");
    sweep = new Sweep(options({ isRestored: () => false }));
    await sweeps(600);
    expect(removed).toEqual([]);
  });

  it("is looked for by its alias: another alias is not its link, whatever its index and name", async () => {
    rmSync(directory.path, { recursive: true });
    links = [{ ...HOST_LINK, alias: "other" }];
    await sweeps(60);
    expect(removed).toEqual(["endpoint 4"]);
  });

  it("G20: is not one whose link was made again, with another index: that one is taken over", async () => {
    rmSync(directory.path, { recursive: true });
    links = [{ ...HOST_LINK, index: 8 }];
    await sweeps(1_200);
    expect(removed).toEqual([]);
    expect(new Set(taken)).toEqual(new Set(["endpoint 4: index 8"]));
  });

  it("G1: stays where the agent has never seen its sandbox at the path: that it is missing here, or another one, says nothing", async () => {
    records = [
      record({ netns: { path: directory.path, dev: "1", ino: "1" } }),
      record({ id: 5, netns: { path: join(directory.path, "missing"), dev: "1", ino: "1" } }),
    ];
    await sweeps(1_200);
    expect(removed).toEqual([]);
  });

  it("has to be seen twice in a row", async () => {
    rmSync(directory.path, { recursive: true });
    await sweep.run(NEVER);
    links = [HOST_LINK];
    await nextSweep();
    links = [];
    await nextSweep();
    expect(removed).toEqual([]);
  });

  it("begins anew after a look that failed", async () => {
    rmSync(directory.path, { recursive: true });
    await sweep.run(NEVER);
    await clock.advance(60_000);
    links = new Error("netlink");
    await expect(sweep.run(NEVER)).rejects.toThrow("netlink");
    links = [];
    await sweep.run(NEVER);
    expect(removed).toEqual([]);
    await nextSweep();
    expect(removed).toEqual(["endpoint 4"]);
  });

  it("stays where its pod's UID, its pod or a cluster is not known: nothing can say that it is gone", async () => {
    onServer = [];
    const { podUID: _, ...withoutUid } = record();
    records = [withoutUid];
    await sweeps(1_200);
    const { pod: __, ...container } = withoutUid;
    records = [container];
    await sweeps(1_200);
    records = [record()];
    sweep = new Sweep(options({ pods: undefined }));
    await sweeps(1_200);
    expect(removed).toEqual([]);
  });

  it("stays where the path of its sandbox is not known, or cannot be followed", async () => {
    const loop = join(directory.path, "loop");
    symlinkSync(loop, loop);
    records = [record({ netns: { path: "" } }), record({ id: 5, netns: { path: loop, dev: "1", ino: "1" } })];
    await sweeps(1_200);
    expect(removed).toEqual([]);
  });

  it("is removed alone: the endpoints beside it are judged by themselves", async () => {
    links = [{ ...HOST_LINK, index: 8, alias: "tortie:net/c2/eth0" }];
    records = [
      record({ netns: { path: directory.path, dev: "1", ino: "1", isVisible: true } }),
      record({ id: 5, hostInterface: { name: "cali2", index: 8, alias: "tortie:net/c2/eth0" } }),
    ];
    await sweeps(60);
    expect(removed).toEqual(["endpoint 4"]);
  });

  it("stays when it has changed while the server was asked", async () => {
    sweep = new Sweep(
      options({
        pods: {
          isComplete: true,
          uidsOf: () => [],
          ask: async () => {
            records = [record({ updatedAt: "2026-11-23T00:00:00.000Z" }), record({ id: 5, phase: "adding:build" })];
            return [];
          },
        },
      }),
    );
    await sweeps(60);
    expect(removed).toEqual([]);
  });

  it("stays when the agent is asked to end", async () => {
    rmSync(directory.path, { recursive: true });
    attached = [{ hostInterface: "tmp9", index: 9 }];
    await sweep.run(NEVER);
    await clock.advance(60_000);
    await sweep.run(AbortSignal.abort());
    expect(removed).toEqual([]);
  });

  it("is left alone while its ADD or DEL goes on, and when another plugin made its link", async () => {
    records = [record({ phase: "adding:build" }), record({ id: 5, phase: "deleting:link" }), record({ id: 6, linkForm: "attached" })];
    rmSync(directory.path, { recursive: true });
    await sweeps(600);
    expect(removed).toEqual([]);
  });
});

describe("an endpoint whose pod is gone and whose link stands", () => {
  it("is removed when the runtime has sent no DEL for ten minutes", async () => {
    inCache = [];
    onServer = [];
    await sweeps(540);
    expect(removed).toEqual([]);
    await nextSweep();
    expect(removed).toEqual(["endpoint 4"]);
    expect(found).toEqual(["endpoint-without-pod"]);
  });

  it("stays when the server still has the pod, when the list has a gap, and where there is no cluster", async () => {
    inCache = [];
    await sweeps(1_200);
    onServer = [];
    isComplete = false;
    await sweeps(1_200);
    sweep = new Sweep(options({ pods: undefined }));
    await sweeps(1_200);
    expect(removed).toEqual([]);
  });
});

describe("G13: a removal that fails", () => {
  it("does not hold up the others, which keep what was seen of them, and is tried again", async () => {
    inCache = [];
    onServer = [];
    records = [record(), record({ id: 5 })];
    let isFailing = true;
    sweep = new Sweep(
      options({
        remove: async ({ id }) => {
          removed.push(`endpoint ${id}`);
          if (id === 4 && isFailing) throw new Error("stuck");
          records = records.filter((one) => one.id !== id);
        },
      }),
    );
    await sweeps(540);
    await clock.advance(60_000);
    await expect(sweep.run(NEVER)).rejects.toThrow("stuck");
    expect(removed).toEqual(["endpoint 4", "endpoint 5"]);
    isFailing = false;
    await nextSweep();
    expect(removed).toEqual(["endpoint 4", "endpoint 5", "endpoint 4"]);
    expect(records).toEqual([]);
  });
});

describe("G4: an endpoint of a static pod", () => {
  beforeEach(() => {
    records = [record({ podUID: "mirror-1", runtimePodUID: "hash" })];
  });

  it("stays when its mirror is made anew, and when there is none, as long as its sandbox is there", async () => {
    for (const uids of [["mirror-2", "hash", "hash"], ["mirror-3", "hash-of-another-file"], []]) {
      inCache = uids;
      onServer = uids;
      await sweeps(1_200);
    }
    links = [];
    await sweeps(1_200);
    expect(removed).toEqual([]);
  });

  it("is removed when mirror and sandbox are gone", async () => {
    inCache = [];
    onServer = [];
    rmSync(directory.path, { recursive: true });
    await sweeps(540);
    expect(removed).toEqual([]);
    await nextSweep();
    expect(removed).toEqual(["endpoint 4"]);
  });
});

describe("an endpoint of an ordinary pod", () => {
  it("G4: is removed when its pod was made anew, although the runtime gave the same UID", async () => {
    records = [record({ podUID: "uid-1", runtimePodUID: "uid-1" })];
    inCache = ["uid-2"];
    onServer = ["uid-2"];
    await sweeps(600);
    expect(removed).toEqual(["endpoint 4"]);
  });
});

describe("a link of ours without an endpoint", () => {
  const owner = { network: "net", containerId: "c9", ifname: "eth0", workload: "default/old" };
  beforeEach(() => {
    attached = [{ hostInterface: "cali9", index: 9, owner }];
    onServer = [];
  });

  it("is removed at the second look when the server says that its pod is gone", async () => {
    await sweep.run(NEVER);
    expect(removed).toEqual([]);
    await nextSweep();
    expect(removed).toEqual(["link cali9"]);
  });

  it("is only reported while its pod may live: it may have been made before there was an agent", async () => {
    onServer = ["uid-9"];
    await sweeps(600);
    sweep = new Sweep(options({ pods: undefined }));
    await sweeps(600);
    expect(removed).toEqual([]);
    expect(new Set(found)).toEqual(new Set(["link-without-endpoint"]));
  });

  it("is news at the first look that finds it, and again when it was away meanwhile", async () => {
    sweep = new Sweep(options({ pods: undefined }));
    await sweeps(600);
    expect(news.length).toBeGreaterThan(2);
    expect([news[0], new Set(news.slice(1))]).toEqual([true, new Set([false])]);
    const links = attached;
    attached = [];
    await sweeps(60);
    news = [];
    attached = links;
    await sweeps(600);
    expect([news[0], new Set(news.slice(1))]).toEqual([true, new Set([false])]);
  });

  it("G4: is only reported where it may be a static pod's, whose mirror may be gone while its containers run", async () => {
    const linkOfPod = (index: number, workload: string) => ({ hostInterface: `cali${index}`, index, owner: { ...owner, workload } });
    attached = [linkOfPod(8, "kube-system/registry-node-a"), linkOfPod(9, "kube-system/registry-node-b"), linkOfPod(10, "default/node-a")];
    await sweeps(1_200);
    expect(new Set(removed)).toEqual(new Set(["link cali9", "link cali10"]));
    expect(found.filter((kind) => kind !== "link-without-endpoint")).toEqual([]);
  });

  it.each([
    ["network", { network: "other" }],
    ["container", { containerId: "c2" }],
    ["interface", { ifname: "eth1" }],
  ])("is one when its endpoint differs in the %s alone", async (_, changes) => {
    onServer = ["uid-9"];
    const { ifname, ...rest } = { ...owner, ...changes };
    records = [record({ attachment: { network: rest.network, containerId: rest.containerId, ifname } })];
    await sweeps(60);
    expect(found).toEqual(["link-without-endpoint"]);
  });

  it("is none beside the endpoints of others", async () => {
    records = [record({ attachment: { network: "net", containerId: "c9", ifname: "eth0" } }), record({ id: 5 })];
    await sweeps(600);
    expect([removed, found]).toEqual([[], []]);
  });

  it("stays when it got an endpoint while the server was asked for its pod", async () => {
    const pods = {
      isComplete: true,
      uidsOf: () => [],
      ask: async () => {
        records = [record({ attachment: { network: "net", containerId: "c9", ifname: "eth0" } })];
        return [];
      },
    };
    records = [];
    sweep = new Sweep(options({ pods }));
    await sweeps(60);
    expect(found).toEqual(["link-without-endpoint"]);
    expect(removed).toEqual([]);
  });

  it("is removed when it has been half made for a minute", async () => {
    attached = [{ hostInterface: "tmp9", index: 9 }];
    await sweep.run(NEVER);
    expect(removed).toEqual([]);
    await nextSweep();
    expect([removed, found]).toEqual([["link tmp9"], ["unfinished-link"]]);
  });
});

describe("An endpoint with two links of its name", () => {
  it("keeps the one that it knows by its index, and takes over another only when that one is gone", async () => {
    const older = { ...HOST_LINK, index: 3 };
    links = [older, HOST_LINK];
    await sweeps(120);
    expect([taken, removed]).toEqual([[], []]);
    links = [older];
    await sweeps(0);
    expect([taken, removed]).toEqual([["endpoint 4: index 3"], []]);
  });
});
