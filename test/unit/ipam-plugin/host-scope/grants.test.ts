import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { dumpOf } from "../../../../ipam-plugin/host-scope/dump.ts";
import { decodeGrant, encodeGrant, type Owner, openGrantDirectory } from "../../../../ipam-plugin/host-scope/grant-directory.ts";
import type { HostScope, HostScopeRequest } from "../../../../ipam-plugin/host-scope/host-scope.ts";
import { formatAddress } from "../../../../lib/addresses/address.ts";
import { address } from "../../../support/addresses.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";
import { GrantFileSystem, hostScopeOf } from "../../../support/grant-directories.ts";
import { seededRandom } from "../../../support/scheduler.ts";

const NOW = 1_787_405_600_000;

function attachment(containerId: string, pod?: string): Owner {
  return { kind: "attachment", network: "net1", containerId, ifname: "eth0", ...(pod === undefined ? {} : { pod }) };
}

async function take(hostScope: HostScope, owner: Owner, rest: Omit<HostScopeRequest, "owner"> = {}): Promise<string[]> {
  return (await hostScope.grant({ owner, ...rest })).map((one) => formatAddress(one.address));
}

describe("granting an address", () => {
  it("A-I01: gives a /29 six addresses and says of the seventh that the range is full, and who holds it", async () => {
    const hostScope = hostScopeOf({ cidrs: ["10.60.0.0/29"], strategy: "random" });
    const taken: string[] = [];
    for (let index = 0; index < 6; index++) taken.push(...(await take(hostScope, attachment(`c${index}`, "shop/web"))));
    expect(taken.sort()).toEqual(["10.60.0.1", "10.60.0.2", "10.60.0.3", "10.60.0.4", "10.60.0.5", "10.60.0.6"]);
    await expect(take(hostScope, attachment("c7"))).rejects.toMatchObject({
      word: "addresses-exhausted",
      message: "range is full: 6 of 6 addresses of 10.60.0.0/29 are in use",
      details: "most are held by namespace shop (6)",
    });
  });

  it.each(["10.60.0.0/31", "10.60.0.1/32", "fd60::/127"])("A-I01: %s is full from the start", async (cidr) => {
    await expect(take(hostScopeOf({ cidrs: [cidr] }), attachment("c1"))).rejects.toMatchObject({ word: "addresses-exhausted" });
  });

  it("A-I02: contiguous takes offsets 0 to 9, and a released one again after its cooldown", async () => {
    let now = NOW;
    const hostScope = hostScopeOf({ cidrs: ["10.60.0.0/24"], nowMs: () => now });
    const taken: string[] = [];
    for (let index = 0; index < 10; index++) taken.push(...(await take(hostScope, attachment(`c${index}`))));
    expect(taken).toEqual(Array.from({ length: 10 }, (_, index) => `10.60.0.${index + 1}`));

    await hostScope.releaseAll((grant) => grant.owner.kind === "attachment" && grant.owner.containerId === "c2");
    expect(await take(hostScope, attachment("early"))).toEqual(["10.60.0.11"]);
    now += 30_000;
    expect(await take(hostScope, attachment("late"))).toEqual(["10.60.0.3"]);
  });

  it("A-I02: random takes the same order from the same seed", async () => {
    const order = async () => {
      const hostScope = hostScopeOf({ cidrs: ["10.60.0.0/24"], strategy: "random", random: seededRandom(42) });
      const taken: string[] = [];
      for (let index = 0; index < 10; index++) taken.push(...(await take(hostScope, attachment(`c${index}`))));
      return taken;
    };
    const first = await order();
    expect(await order()).toEqual(first);
    expect(first).not.toEqual([...first].sort());
  });

  it("next goes behind the latest grant, released ones included in nothing", async () => {
    let now = NOW;
    const hostScope = hostScopeOf({ cidrs: ["10.60.0.0/29"], strategy: "next", cooldownMs: 0, nowMs: () => ++now });
    await take(hostScope, attachment("c1"));
    await take(hostScope, attachment("c2"));
    await hostScope.releaseAll((grant) => grant.owner.kind === "attachment" && grant.owner.containerId === "c1");
    expect(await take(hostScope, attachment("c3"))).toEqual(["10.60.0.3"]);
  });

  it("B12: gives a cooling address again when the clock was set back behind its release", async () => {
    let now = NOW;
    const hostScope = hostScopeOf({ cidrs: ["10.60.0.0/29"], cooldownMs: 60_000, nowMs: () => now });
    const [released] = await take(hostScope, attachment("c1"));
    await hostScope.releaseAll((grant) => grant.owner.kind === "attachment" && grant.owner.containerId === "c1");
    expect(await take(hostScope, attachment("c2"))).not.toEqual([released]);
    now -= 3_600_000;
    expect(await take(hostScope, attachment("c3"))).toEqual([released]);
  });

  it("A-I03: gives a well-formed address of 64:ff9b:1::/112", async () => {
    expect(await take(hostScopeOf({ cidrs: ["64:ff9b:1::/112"] }), attachment("c1"))).toEqual(["64:ff9b:1::1"]);
  });

  it("A-P03: gives one address of each family, IPv6 first, and keeps none when one family is full", async () => {
    const files = new GrantFileSystem();
    const hostScope = hostScopeOf({ cidrs: ["10.60.0.0/30", "fd60::/120"], directory: files.connect() });
    expect(await take(hostScope, attachment("c1"))).toEqual(["fd60::1", "10.60.0.1"]);
    expect(await take(hostScope, attachment("c2"))).toEqual(["fd60::2", "10.60.0.2"]);
    await expect(take(hostScope, attachment("c3"))).rejects.toMatchObject({ word: "addresses-exhausted" });
    expect([...files.grants().keys()].sort()).toEqual(["10.60.0.1", "10.60.0.2", "fd60::1", "fd60::2"]);
    // The address that was taken back is free at once.
    expect(await take(hostScope, attachment("c4"), { families: [6] })).toEqual(["fd60::3"]);
  });

  it("A-P04: refuses a family that the node has no range of, and grants nothing", async () => {
    const files = new GrantFileSystem();
    const hostScope = hostScopeOf({ cidrs: ["10.60.0.0/24"], directory: files.connect() });
    await expect(take(hostScope, attachment("c1"), { families: [4, 6] })).rejects.toMatchObject({ word: "family-disabled" });
    expect(files.names()).toEqual([]);
  });

  it("A-I04: never gives what the host routes elsewhere, and takes no bit for it", async () => {
    const hostScope = hostScopeOf({ cidrs: ["10.60.0.0/29"], excluded: ["10.60.0.0/30"] });
    expect([
      await take(hostScope, attachment("c1")),
      await take(hostScope, attachment("c2")),
      await take(hostScope, attachment("c3")),
    ]).toEqual([["10.60.0.4"], ["10.60.0.5"], ["10.60.0.6"]]);
    await expect(take(hostScope, attachment("c4"))).rejects.toMatchObject({ word: "addresses-exhausted" });
    expect((await dumpOf(hostScope)).ranges).toEqual([
      { family: 4, cidr: "10.60.0.0/29", size: 6, used: 3, free: 0, cooling: 0, excluded: 3 },
    ]);
  });

  it.each([
    ["10.60.0.0", "address-outside-pools"],
    ["10.60.0.7", "address-outside-pools"],
    ["10.61.0.1", "address-outside-pools"],
    ["10.60.0.6", "address-excluded"],
    ["10.60.0.2", "address-taken"],
    ["fd60::1", "family-disabled"],
  ])("A-P05: refuses %s: %s", async (text, word) => {
    const hostScope = hostScopeOf({ cidrs: ["10.60.0.0/29"], excluded: ["10.60.0.6/32"] });
    await take(hostScope, attachment("c1"), { addresses: [address("10.60.0.2")] });
    await expect(take(hostScope, attachment("c2"), { addresses: [address(text)] })).rejects.toMatchObject({ word });
  });

  it("A-C10: grants an address outside the range again to those who run with it, and counts it as foreign", async () => {
    const hostScope = hostScopeOf({ cidrs: ["10.60.0.0/29"] });
    await take(hostScope, attachment("old"), { addresses: [address("10.50.0.9")], mayBeForeign: true });
    const { foreign, grants, ranges } = await dumpOf(hostScope);
    expect({ foreign, used: ranges[0]?.used, grants }).toEqual({
      foreign: 1,
      used: 0,
      grants: [{ family: 4, address: "10.50.0.9", owner: "net1:old:eth0", grantedAtMs: NOW, isForeign: true }],
    });
    expect(await hostScope.releaseAll(() => true)).toHaveLength(1);
    expect((await dumpOf(hostScope)).foreign).toBe(0);
  });

  it("takes a cooling address when nothing else is free", async () => {
    const hostScope = hostScopeOf({ cidrs: ["10.60.0.0/30"] });
    await take(hostScope, attachment("c1"));
    await take(hostScope, attachment("c2"));
    await hostScope.releaseAll((grant) => grant.owner.kind === "attachment" && grant.owner.containerId === "c2");
    expect((await dumpOf(hostScope)).ranges).toEqual([expect.objectContaining({ used: 1, free: 1, cooling: 1 })]);
    expect(await take(hostScope, attachment("c3"))).toEqual(["10.60.0.2"]);
  });
});

describe("releasing an address", () => {
  it("releases by token what the grant still is, and nothing that was granted since", async () => {
    const hostScope = hostScopeOf({ cidrs: ["10.60.0.0/29"], cooldownMs: 0 });
    const [mine] = await hostScope.grant({ owner: attachment("c1") });
    if (mine === undefined) throw new Error("nothing was granted");
    await hostScope.giveBack(mine);
    expect(await take(hostScope, attachment("c2"))).toEqual(["10.60.0.1"]);
    await hostScope.giveBack(mine);
    expect(await hostScope.heldBy(attachment("c2"))).toHaveLength(1);
  });

  it("keeps two interfaces of one container apart", async () => {
    const hostScope = hostScopeOf();
    const second: Owner = { kind: "attachment", network: "net1", containerId: "c1", ifname: "net1" };
    await take(hostScope, attachment("c1"));
    await take(hostScope, second);
    expect((await hostScope.heldBy(second)).map((one) => formatAddress(one.address))).toEqual(["10.60.0.2"]);
  });

  it("A-P07: keeps a grant until its time is over, counted from the file", async () => {
    const files = new GrantFileSystem();
    let now = NOW;
    const start = () => hostScopeOf({ directory: files.connect(), nowMs: () => now });
    await take(start(), { kind: "name", name: "shop/web" }, { lifeMs: 600_000 });
    now += 599_999;
    expect(await start().expire()).toEqual([]);
    now += 1;
    expect((await start().expire()).map(formatAddress)).toEqual(["10.60.0.1"]);
  });

  it("removes drafts of dead processes and releases whose cooldown is over, and nothing else", async () => {
    const files = new GrantFileSystem();
    const directory = files.connect();
    let now = NOW;
    const hostScope = hostScopeOf({ directory, nowMs: () => now });
    await take(hostScope, attachment("c1"));
    await take(hostScope, attachment("c2"));
    await hostScope.releaseAll((grant) => grant.owner.kind === "attachment" && grant.owner.containerId === "c1");
    await directory.write(4, `.new-${NOW - 61_000}-dead`, "");
    await directory.write(4, `.new-${NOW + 20_000}-alive`, "");
    await directory.write(4, "foreign", "");
    now += 30_000;
    await hostScope.expire();
    expect(files.names()).toEqual(["4/.new-1787405620000-alive", "4/10.60.0.2", "4/foreign"]);
  });

  it("keeps the address of a file that it cannot read", async () => {
    const files = new GrantFileSystem();
    const directory = files.connect();
    await directory.write(4, "10.60.0.1", '{"half": ');
    const hostScope = hostScopeOf({ directory });
    expect(await hostScope.releaseAll(() => true)).toEqual([]);
    expect(await take(hostScope, attachment("c1"))).toEqual(["10.60.0.2"]);
  });
});

describe("the grant file", () => {
  const root = fresh(() => new TemporaryDirectory());

  it("reads what it wrote", () => {
    const grants = [
      { owner: attachment("c1", "shop/web"), token: "t", grantedAtMs: NOW, endpoint: 12 },
      { owner: { kind: "name" as const, name: "node/router" }, token: "t", grantedAtMs: NOW, expiresAtMs: NOW + 1 },
    ];
    for (const grant of grants) expect(decodeGrant(encodeGrant(grant))).toEqual(grant);
    for (const bad of ["", "{}", '{"owner":1,"token":"t","granted-at":"x"}', "[]"]) expect(decodeGrant(bad)).toBeUndefined();
  });

  it("is private, has one name, and keeps the time of a release in its name", async () => {
    const hostScope = hostScopeOf({
      cidrs: ["10.60.0.0/29", "fd60::/120"],
      directory: openGrantDirectory(join(root.path, "ipam")),
      newToken: randomUUID,
    });
    await take(hostScope, attachment("c1", "shop/web"));
    const path = join(root.path, "ipam/v4/10.60.0.1");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(path).nlink).toBe(1);
    expect(statSync(join(root.path, "ipam/v6")).mode & 0o777).toBe(0o700);
    expect(JSON.parse(readFileSync(path, "utf8"))).toEqual({
      attachment: { network: "net1", "container-id": "c1", ifname: "eth0" },
      pod: "shop/web",
      token: expect.stringMatching(/^[0-9a-f-]{36}$/),
      "granted-at": "2026-08-22T13:33:20.000Z",
    });
    await hostScope.releaseAll(() => true);
    expect(readdirSync(join(root.path, "ipam/v4"))).toEqual([`10.60.0.1.released-${NOW}`]);
  });
});

describe("confirming a grant", () => {
  it("G14: makes it the attachment's, so that it does not end with its time limit", async () => {
    let now = NOW;
    const hostScope = hostScopeOf({ cidrs: ["10.60.0.0/24"], nowMs: () => now });
    const [granted] = await hostScope.grant({ owner: { kind: "name", name: "client" }, lifeMs: 600_000 });
    if (granted === undefined) throw new Error("nothing was granted");

    expect(await hostScope.files.confirm(granted.address, "another token", attachment("c1"))).toBe(false);
    expect(await hostScope.files.confirm(granted.address, granted.grant.token, attachment("c1"))).toBe(true);
    now += 700_000;

    expect(await hostScope.expire()).toEqual([]);
    const held = await hostScope.heldBy(attachment("c1"));
    expect(held.map(({ grant }) => grant)).toEqual([{ owner: attachment("c1"), token: granted.grant.token, grantedAtMs: NOW }]);
  });

  it("G14: fails once the grant has ended", async () => {
    let now = NOW;
    const hostScope = hostScopeOf({ cidrs: ["10.60.0.0/24"], nowMs: () => now });
    const [granted] = await hostScope.grant({ owner: { kind: "name", name: "client" }, lifeMs: 600_000 });
    if (granted === undefined) throw new Error("nothing was granted");
    now += 700_000;
    await hostScope.expire();

    expect(await hostScope.files.confirm(granted.address, granted.grant.token, attachment("c1"))).toBe(false);
    expect(await hostScope.heldBy(attachment("c1"))).toEqual([]);
  });
});
