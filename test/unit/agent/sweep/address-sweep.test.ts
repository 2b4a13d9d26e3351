/** Which addresses the sweep takes back, and when: real grant files, on a clock that the test moves. */

import { AddressSweep, type AddressSweepOptions, sweptGrants } from "../../../../agent/sweep/addresses.ts";
import type { WitnessParts } from "../../../../agent/sweep/witnesses.ts";
import { attachmentAlias } from "../../../../dataplane/alias.ts";
import type { HostLink } from "../../../../dataplane/linux/host-facts.ts";
import type { EndpointRecord } from "../../../../handover/record.ts";
import { hostScopeFiles } from "../../../../ipam-plugin/host-scope/files.ts";
import type { Owner } from "../../../../ipam-plugin/host-scope/grant-directory.ts";
import type { HostScope } from "../../../../ipam-plugin/host-scope/host-scope.ts";
import { hostScopeWith } from "../../../../ipam-plugin/host-scope/open.ts";
import { formatAddress } from "../../../../lib/addresses/address.ts";
import type { Pod } from "../../../../lib/kubernetes/objects.ts";
import { NEVER } from "../../../../lib/system/waiting.ts";
import { podHostInterfaceName } from "../../../../lib/workload/names.ts";
import { address } from "../../../support/addresses.ts";
import { recordOf } from "../../../support/endpoint-record.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";
import { podOf } from "../../../support/pods.ts";

const ADDRESS = "10.62.0.3";
const ATTACHMENT = { network: "net", containerId: "c1", ifname: "eth0" };
const OWNER: Owner = { kind: "attachment", ...ATTACHMENT, pod: "default/web" };

let clock: FakeClock;
const directory = fresh(() => new TemporaryDirectory());
let hostScope: HostScope;
let records: EndpointRecord[];
let links: readonly HostLink[] | Error;
let pods: { isComplete: boolean; list: readonly Pod[]; onServer: Pod | Error | undefined } | undefined;
let isLocked: boolean;
let released: string[];
let unread: readonly string[];
let sweep: AddressSweep;

function link(name: string, alias = ""): HostLink {
  return { index: 7, name, alias, isUp: true, kind: "veth" };
}

function pod(name: string, { podIP = "", annotations = {} } = {}): Pod {
  return podOf({ namespace: "default", name, uid: `uid-${name}`, annotations, podIP, podIPs: podIP === "" ? [] : [podIP] });
}

/** As old as the clock's beginning, and older than an ADD may be. */
async function grant(owner: Owner = OWNER, text = ADDRESS, changes: { grantedAtMs?: number; expiresAtMs?: number } = {}): Promise<void> {
  await hostScope.files.create(address(text), { owner, token: `token of ${text}`, grantedAtMs: 0, ...changes });
}

async function granted(): Promise<readonly string[]> {
  return (await hostScope.holdings()).map(({ address: one }) => formatAddress(one));
}

function options(): AddressSweepOptions {
  const witnesses: WitnessParts = {
    records: () => records,
    links: () => {
      if (links instanceof Error) throw links;
      return links;
    },
    get pods() {
      if (pods === undefined) return undefined;
      const { isComplete, list, onServer } = pods;
      return {
        isComplete,
        list: () => list,
        read: async () => {
          if (onServer instanceof Error) throw onServer;
          return onServer;
        },
      };
    },
  };
  return {
    clock,
    isRestored: () => true,
    store: sweptGrants(() => hostScope),
    witnesses,
    tryLock: () => (isLocked ? undefined : { [Symbol.dispose]: () => undefined }),
    onReleased: (kind, what, count) => released.push(`${kind} ${count}: ${what}`),
    onUnread: (kind, found) => {
      unread = [kind, ...found];
    },
  };
}

beforeEach(async () => {
  clock = new FakeClock();
  hostScope = hostScopeWith(hostScopeFiles(directory.path), { record: () => undefined, strategy: "contiguous", cooldownMs: 0 });
  records = [];
  links = [];
  pods = undefined;
  isLocked = false;
  released = [];
  unread = [];
  sweep = new AddressSweep(options());
  await grant();
});

/** A look, and another one after each minute. */
async function looks(minutes: number): Promise<void> {
  for (let minute = 0; minute <= minutes; minute++) {
    if (minute > 0) await clock.advance(60_000);
    await sweep.run(NEVER).catch(() => undefined);
  }
}

describe("a grant that nothing stands for", () => {
  it("is released at the second look, not before a minute has passed, and says of whom", async () => {
    await sweep.run(NEVER);
    await clock.advance(59_000);
    await sweep.run(NEVER);
    expect(await granted()).toEqual([ADDRESS]);
    await clock.advance(1_000);
    await sweep.run(NEVER);
    expect(await granted()).toEqual([]);
    expect(released).toEqual([
      "grant-without-endpoint 1: 10.62.0.3 of network net, container c1, interface eth0: no endpoint, no link, no record and no pod has it",
    ]);
  });

  it("stays for ten minutes after it was made: its ADD may be under way", async () => {
    await grant({ ...OWNER, containerId: "c2" }, "10.62.0.4", { grantedAtMs: clock.date().getTime() });
    await looks(10);
    expect(await granted()).toEqual(["10.62.0.4"]);
    await looks(1);
    expect(await granted()).toEqual([]);
  });

  it("needs two looks in a row: one that was released and given again between them counts anew", async () => {
    await sweep.run(NEVER);
    await clock.advance(60_000);
    await hostScope.releaseAll(() => true);
    await hostScope.files.create(address(ADDRESS), { owner: OWNER, token: "another", grantedAtMs: 0 });
    await sweep.run(NEVER);
    expect(await granted()).toEqual([ADDRESS]);
  });

  it("G13: whose release fails does not hold up the others, which keep what was seen of them", async () => {
    await grant({ ...OWNER, containerId: "c2" }, "10.62.0.4");
    const { store, ...others } = options();
    const list = async () =>
      (await store.list()).map((one) => (one.containerId === "c1" ? { ...one, release: () => Promise.reject(new Error("stuck")) } : one));
    sweep = new AddressSweep({ ...others, store: { kind: store.kind, list } });
    await sweep.run(NEVER);
    await clock.advance(60_000);
    await expect(sweep.run(NEVER)).rejects.toThrow("stuck");
    expect(await granted()).toEqual([ADDRESS]);
  });

  it("G19: needs two whole looks: what one that was cut short has seen does not count", async () => {
    await grant({ ...OWNER, containerId: "c2" }, "10.62.0.4");
    let ending: AbortController | undefined = new AbortController();
    const { store, ...others } = options();
    const list = async () =>
      (await store.list()).map((one) => ({
        ...one,
        get sinceMs() {
          ending?.abort();
          return one.sinceMs;
        },
      }));
    sweep = new AddressSweep({ ...others, store: { kind: store.kind, list } });
    await sweep.run(ending.signal);
    ending = undefined;
    const held = ["c1", "c2"].map((containerId) => recordOf(4, { attachment: { ...ATTACHMENT, containerId } }));

    records = held;
    await clock.advance(60_000);
    await sweep.run(NEVER);
    records = [];
    await clock.advance(60_000);
    await sweep.run(NEVER);

    expect(await granted()).toEqual([ADDRESS, "10.62.0.4"]);
  });

  it("is released although the pod's new container has a link, an address and an endpoint of its own", async () => {
    links = [link("cali1", attachmentAlias({ ...ATTACHMENT, containerId: "new", workload: "default/web" }))];
    records = [recordOf(4, { attachment: { ...ATTACHMENT, containerId: "new" } })];
    pods = { isComplete: true, list: [pod("web", { podIP: "10.62.0.9" })], onServer: pod("web", { podIP: "10.62.0.9" }) };
    await looks(2);
    expect(await granted()).toEqual([]);
  });
});

describe("S10: a grant that only another pod's annotations name", () => {
  it("is released: they speak for that pod alone", async () => {
    const annotations = { "cni.projectcalico.org/podIPs": `${ADDRESS}/32` };
    pods = { isComplete: true, list: [pod("b", { podIP: "10.0.0.1", annotations })], onServer: undefined };
    await looks(2);
    expect(await granted()).toEqual([]);
    expect(unread).toEqual(["grant-without-endpoint"]);
  });

  it("stays where the grant names no pod: nobody else could speak for it", async () => {
    await hostScope.releaseAll(() => true);
    const { pod: _, ...owner } = OWNER;
    await grant(owner);
    const annotations = { "cni.projectcalico.org/podIPs": `${ADDRESS}/32` };
    pods = { isComplete: true, list: [pod("b", { podIP: "10.0.0.1", annotations })], onServer: undefined };
    await looks(15);
    expect(await granted()).toEqual([ADDRESS]);
  });
});

describe("S11: a grant of a pod whose annotations are too long", () => {
  it("is reported as long as it is kept for that", async () => {
    const annotations = { long: " ".repeat(40_000) };
    pods = { isComplete: true, list: [pod("web", { podIP: "10.0.0.1", annotations })], onServer: undefined };
    await looks(2);
    expect([await granted(), unread]).toEqual([[ADDRESS], ["grant-without-endpoint", "default/web"]]);
    pods = { ...pods, list: [pod("web", { podIP: "10.0.0.1" })] };
    await looks(2);
    expect([await granted(), unread]).toEqual([[], ["grant-without-endpoint"]]);
  });
});

describe("a grant stays", () => {
  const named = [{ address: ADDRESS, family: 4, grant: "file" }] as const;
  const multus = { "k8s.v1.cni.cncf.io/network-status": `[{"name":"a","ips":["${ADDRESS}"]}]` };
  const long = `${" ".repeat(40_000)}${ADDRESS}`;
  const endpoint = (changes: Partial<EndpointRecord>) => () => {
    records = [recordOf(4, changes)];
  };
  const hostLink = (name: string, alias?: string) => () => {
    links = [link(name, alias)];
  };
  const cluster = (list: readonly Pod[], onServer?: Pod | Error, isComplete = true) => {
    pods = { isComplete, list, onServer };
  };
  const kept: readonly (readonly [string, () => void])[] = [
    ["of an endpoint", endpoint({ attachment: ATTACHMENT })],
    ["of an ADD that the agent has begun", endpoint({ attachment: ATTACHMENT, phase: "creating" })],
    ["that an endpoint of another name has", endpoint({ addresses: named })],
    ["whose link says whose it is", hostLink("x", attachmentAlias(ATTACHMENT))],
    ["whose link says of which pod it is too", hostLink("x", attachmentAlias({ ...ATTACHMENT, workload: "default/web" }))],
    ["whose link has only the pod's name", hostLink(podHostInterfaceName("default", "web"))],
    ["whose link has that name with another prefix", hostLink(podHostInterfaceName("default", "web", "eni"))],
    ["whose link has only the container's name", hostLink("calic1")],
    ["that another pod's status names", () => cluster([pod("b", { podIP: ADDRESS })])],
    ["that an annotation of its pod names", () => cluster([pod("web", { podIP: "10.0.0.1", annotations: multus })])],
    ["that only the server knows its pod to name", () => cluster([], pod("web", { podIP: "10.0.0.1", annotations: multus }))],
    ["of a pod whose annotations are too long", () => cluster([pod("web", { podIP: "10.0.0.1", annotations: { long } })])],
    ["of a pod without an address so far", () => cluster([pod("web")], pod("web"))],
    ["of a pod that only the server knows", () => cluster([], pod("web", { podIP: ADDRESS }))],
    [
      "while a plugin works on it",
      () => {
        isLocked = true;
      },
    ],
    [
      "while the links cannot be listed",
      () => {
        links = new Error("no buffer space");
      },
    ],
    ["while the pods are not known", () => cluster([], undefined, false)],
    ["while the pod cannot be asked for", () => cluster([], new Error("503"))],
  ];
  it.each(kept)("%s", async (_, arrange) => {
    arrange();
    await looks(15);
    expect(await granted()).toEqual([ADDRESS]);
    expect(released).toEqual([]);
  });

  it("of the node itself, of a client's name, and one with a time limit of its own", async () => {
    await hostScope.releaseAll(() => true);
    await grant({ kind: "name", name: "node/router" }, "10.62.0.1");
    await grant({ kind: "name", name: "client" }, "10.62.0.2");
    await grant(OWNER, "10.62.0.5", { expiresAtMs: 1 });
    await looks(15);
    expect([...(await granted())].sort()).toEqual(["10.62.0.1", "10.62.0.2", "10.62.0.5"]);
  });

  it("until the restore has ended, and is then seen twice", async () => {
    let isRestored = true;
    sweep = new AddressSweep({ ...options(), isRestored: () => isRestored });
    await sweep.run(NEVER);
    isRestored = false;
    await looks(15);
    isRestored = true;
    await sweep.run(NEVER);
    expect(await granted()).toEqual([ADDRESS]);
    await looks(1);
    expect(await granted()).toEqual([]);
  });

  it("when the agent is asked to end", async () => {
    await sweep.run(NEVER);
    await clock.advance(60_000);
    await sweep.run(AbortSignal.abort());
    expect(await granted()).toEqual([ADDRESS]);
  });

  it("when a look between the two failed, until it was seen twice again", async () => {
    await sweep.run(NEVER);
    await clock.advance(60_000);
    links = new Error("no buffer space");
    await expect(sweep.run(NEVER)).rejects.toThrow("no buffer space");
    links = [];
    await sweep.run(NEVER);
    expect(await granted()).toEqual([ADDRESS]);
    await looks(1);
    expect(await granted()).toEqual([]);
  });
});
