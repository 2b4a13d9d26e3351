/** How checks are run and judged; that they find what is really broken is seen in test/system/doctor and test/cluster/tortiectl. */
import { readFileSync } from "node:fs";
import { judgeCredentials } from "../../../doctor/api-server.ts";
import { abridged, type Check, NotLooked, runChecks } from "../../../doctor/checks.ts";
import { judgeLease } from "../../../doctor/cluster/controller.ts";
import { CLUSTER_CHECKS } from "../../../doctor/cluster/doctor.ts";
import { judgeAgents } from "../../../doctor/cluster/nodes.ts";
import { isPolicyOff } from "../../../doctor/cluster/objects.ts";
import { HOST_CHECKS } from "../../../doctor/host/doctor.ts";
import { judgeMtu, judgeReversePath, judgeRoutes } from "../../../doctor/host/links.ts";
import { judgeNetworkd, leavesAlone, settingsIn } from "../../../doctor/host/neighbours.ts";
import { judgeProducts, productOfPlugin } from "../../../doctor/host/products.ts";
import { exitStatus, failed, skipped, summary, warned, well } from "../../../doctor/report.ts";
import { DatastoreError } from "../../../lib/datastore/errors.ts";
import { TortieError } from "../../../lib/errors/errors.ts";

const NEXT = { next: "do something" };

describe("docs/reference/doctor.md", () => {
  const page = readFileSync("docs/reference/doctor.md", "utf8");
  const [, host = "", cluster = ""] = page.split(/^## .*\n/m);
  const rows = (part: string) => [...part.matchAll(/^\| `([a-z-]+)` \| /gm)].map(([, name]) => name);

  it.each<[string, string, readonly { readonly check: string }[]]>([
    ["a host", host, HOST_CHECKS],
    ["a cluster", cluster, CLUSTER_CHECKS],
  ])("has a row for each check of %s, in the order of the screen", (_what, part, table) => {
    expect(rows(part)).toEqual(table.map(({ check }) => check));
  });
});

describe("A run of checks", () => {
  const run = (look: Check<undefined>["look"]) => runChecks([{ group: "g", check: "c", object: "o", look }], undefined);

  it("gives each finding its group and check", async () => {
    expect(await run(() => [well("this", "is fine"), failed("that", "is not", NEXT)])).toEqual([
      { group: "g", check: "c", status: "ok", object: "this", message: "is fine" },
      { group: "g", check: "c", status: "failed", object: "that", message: "is not", next: "do something" },
    ]);
  });

  it.each<[string, unknown, object]>([
    [
      "for want of privilege",
      Object.assign(new Error("open: EPERM"), { code: "EPERM" }),
      { status: "skipped", word: "privilege-missing", next: expect.stringContaining("root") },
    ],
    ["for want of a right", new DatastoreError("unauthorized", "no"), { status: "skipped", word: "datastore-unauthorized" }],
    ["as it says itself", new NotLooked(skipped("x", "why")), { status: "skipped", object: "x", message: "why" }],
    [
      "with a word",
      new TortieError("agent-unreachable", "no answer"),
      { status: "failed", word: "agent-unreachable", message: "no answer" },
    ],
    [
      "for any other reason",
      new Error("strange"),
      { status: "failed", message: "it cannot be looked at: strange", next: expect.any(String) },
    ],
  ])("goes on where one cannot look %s", async (_why, thrown, expected) => {
    const found = await run(() => {
      throw thrown;
    });
    expect(found).toEqual([expect.objectContaining(expected)]);
  });

  it("keeps many findings of one check short, the gravest first", () => {
    const many = Array.from({ length: 20 }, (_, at) => (at === 19 ? failed("last", "m", NEXT) : warned(`${at}`, "m", NEXT)));
    const short = abridged(many, "all of them");
    expect(short).toHaveLength(11);
    expect(short[0]).toMatchObject({ object: "last", status: "failed" });
    expect(short.at(-1)).toMatchObject({ object: "all of them", message: "and 10 more", next: "do something" });
    expect(abridged(many.slice(0, 3), "x")).toHaveLength(3);
  });

  it("is counted, and fails only for what failed", () => {
    const results = [well("a", "m"), warned("b", "m", NEXT), skipped("c", "m")].map((one) => ({ group: "g", check: "c", ...one }));
    expect(summary({ results })).toEqual({ ok: 1, warning: 1, failed: 0, skipped: 1 });
    expect(exitStatus({ results })).toBe(0);
    expect(exitStatus({ results: [...results, { group: "g", check: "c", ...failed("d", "m", NEXT) }] })).toBe(1);
  });
});

const END = {
  index: 7,
  name: "cali1",
  mac: "ee:ee:ee:ee:ee:ee",
  mtu: 1500,
  alias: "tortie:net/c1/eth0/default/web",
  group: 0,
  isUp: true,
  kind: "veth",
};

describe("The judgement of a pod's interface", () => {
  const route = (value: bigint, index = 7, length = 32) => ({
    destination: { address: { family: 4, value } as const, length },
    gateway: undefined,
    hasSource: false,
    index,
    scope: "link",
    protocol: 3,
  });

  it("misses the route to each address that the agent knows, and names the pod", () => {
    const found = judgeRoutes(END, [route(0x0a000001n), route(0x0a000002n, 8)], ["10.0.0.1", "10.0.0.2"]);
    expect(found).toEqual([
      expect.objectContaining({
        status: "failed",
        object: "interface cali1 of default/web",
        message: "no route leads to its address 10.0.0.2",
      }),
    ]);
  });

  it("without an agent knows only whether there is a route at all, and takes no route to a network for one", () => {
    expect(judgeRoutes(END, [route(0x0a000001n)], undefined)).toEqual([]);
    expect(judgeRoutes(END, [route(0x0a000000n, 7, 24)], undefined)).toMatchObject([{ status: "warning" }]);
  });

  it.each<[string, string, number]>([
    ["0", "1", 0],
    ["1", "0", 0],
    ["2", "1", 1],
    ["0", "0", 1],
  ])("counts the higher of the filters %s (all) and %s (its own)", (all, own, findings) => {
    expect(judgeReversePath(END, all, own)).toHaveLength(findings);
  });

  it("warns where a tunnel is narrower than a pod, and fails where the uplink is", () => {
    const uplink = { name: "up0", mtu: 1500 };
    const tunnel = (mtu: number, family: 4 | 6) => ({ name: "vxlan.calico", mtu, family });
    expect(judgeMtu({ uplink, ends: [END], tunnels: [] })).toEqual([]);
    expect(judgeMtu({ uplink, ends: [END], tunnels: [tunnel(1450, 4)] })).toMatchObject([{ status: "warning" }]);
    expect(judgeMtu({ uplink: { name: "up0", mtu: 1400 }, ends: [END], tunnels: [] })).toMatchObject([{ status: "failed" }]);
    expect(judgeMtu({ uplink, ends: [], tunnels: [tunnel(1450, 6)] })).toMatchObject([
      { status: "failed", message: expect.stringContaining("1430") },
    ]);
  });
});

describe("The judgement of neighbours", () => {
  it.each([
    ["ADMIN_STATE=unmanaged\n", 0],
    ["ADMIN_STATE=pending\n", 0],
    ["ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/a.network\n", 1],
    ["ADMIN_STATE=failed\n", 1],
    ["", 0],
  ])("reads of networkd's %j that it is managed: %i", (text, findings) => {
    expect(judgeNetworkd("cali1", settingsIn(text))).toHaveLength(findings);
  });

  it.each([
    ["unmanaged-devices=interface-name:cali*;interface-name:tunl*", true],
    [" unmanaged-devices += interface-name:eth9,interface-name:cali*", true],
    ["unmanaged-devices=interface-name:calico", false],
    ["# unmanaged-devices=interface-name:cali*", false],
  ])("reads of NetworkManager's %j that it leaves pods alone: %s", (text, isLeft) => {
    expect(leavesAlone(text, "cali")).toBe(isLeft);
  });

  it("tells a network that runs from one that was left, and Felix from both", () => {
    const links = [{ name: "flannel.1", alias: "" }];
    const rules = ["chain cali-FORWARD", "table filter"];
    const judged = (...processes: string[]) =>
      judgeProducts({ links, rules, processes: new Set(processes) }).map(({ status, object }) => `${object} ${status}`);
    expect(judged()).toEqual(["flannel warning", "Felix warning"]);
    expect(judged("calico-node", "flanneld")).toEqual(["flannel warning", "Felix ok"]);
    expect(judgeProducts({ links: [{ name: "vxlan.calico", alias: "" }], rules: ["table tortie"], processes: new Set() })).toEqual([]);
    expect([productOfPlugin("cilium-cni"), productOfPlugin("bridge")]).toEqual(["Cilium", undefined]);
  });
});

describe("The judgement of a cluster", () => {
  const NOW = Date.parse("2026-11-26T12:00:00Z");
  const lease = (renewed: string, holder = "a") => ({ spec: { holderIdentity: holder, leaseDurationSeconds: 15, renewTime: renewed } });

  it.each<[string, object | undefined, string]>([
    ["fresh", lease("2026-11-26T11:59:50Z"), "ok"],
    ["late by one renewal", lease("2026-11-26T11:59:40Z"), "ok"],
    ["old", lease("2026-11-26T11:59:20Z"), "failed"],
    ["given back", lease("2026-11-26T11:59:59Z", ""), "failed"],
    ["without a time", lease(""), "failed"],
    ["not there", undefined, "failed"],
  ])("takes a lease that is %s for %s", (_what, object, status) => {
    expect(judgeLease("lease", object && { ...object }, NOW, "kube-system").status).toBe(status);
  });

  it("repeats why an agent's pod waits", () => {
    const waiting = { reason: "ImagePullBackOff", message: "no such image" };
    const pod = { metadata: { name: "p" }, status: { containerStatuses: [{ state: { waiting } }] } };
    expect(judgeAgents(["n1"], new Map([["n1", pod]]), "ns")).toMatchObject([
      { message: "its agent p is not ready: ImagePullBackOff: no such image" },
    ]);
  });

  it.each<[object, boolean]>([
    [{ args: ["--policy=off"] }, true],
    [{ args: ["--policy", "off"] }, true],
    [{ args: ["--policy-warning=off"] }, false],
    [{ args: [], env: [{ name: "TORTIE_POLICY", value: "off" }] }, true],
    [{ args: ["--policy=auto"] }, false],
  ])("reads of %j that policy is off: %s", (container, isOff) => {
    expect(isPolicyOff({ spec: { template: { spec: { containers: [container] } } } })).toBe(isOff);
  });

  it("judges credentials by their own words", () => {
    const identity = { description: "somebody", certificate: undefined, authorization: undefined, headers: [], plugin: undefined };
    const judged = (authorization: string | undefined) => judgeCredentials({ identity: { ...identity, authorization } }, NOW).status;
    const token = (exp: number) => `Bearer e30.${Buffer.from(JSON.stringify({ exp })).toString("base64url")}.s`;
    expect([
      judged(undefined),
      judged("Bearer opaque"),
      judged(token(NOW / 1000 - 1)),
      judged(token(NOW / 1000 + 60)),
      judged(token(NOW / 1000 + 7200)),
    ]).toEqual(["failed", "ok", "failed", "warning", "ok"]);
  });
});
