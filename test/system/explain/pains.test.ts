/**
 * What users of all CNIs suffer from, each made on a real node and explained: the cause, and what to do next. Where a pain cannot exist with
 * Tortie the test shows that, and how the nearest situation is explained. Pain 2 needs an API server: test/cluster/tortiectl/explain.test.ts.
 */
import { copyFileSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openLocalDatastore } from "../../../lib/datastore/local/local-datastore.ts";
import { Agent } from "../../support/agent.ts";
import { dualIpam } from "../../support/conf.ts";
import { ExplainedNode, wrongIn } from "../../support/explained-node.ts";
import { fresh } from "../../support/fixtures.ts";
import { BIN_DIR } from "../../support/node.ts";

const here = fresh(ExplainedNode.create);

/** Eight addresses. */
const SMALL = dualIpam("4", { pools: [{ cidr: "10.244.0.0/29", blockSize: 29, name: "small" }] });

it("pain 1: an address that leaked is named with its container that is gone, and can be given back", async () => {
  const web = await here.add("web", "aa11");
  await here.node.removePod(web.pod);

  const [address = ""] = web.addresses;
  const leaked = await here.explain("ip", address);

  expect(leaked.attachments).toMatchObject([{ pod: "default/web", containerId: "aa11" }]);
  expect(wrongIn(leaked)).toEqual([
    expect.stringMatching(/sandbox .*is gone, and no DEL has come: 10\.244\..* stays taken -> .*tortiectl repair container aa11/),
  ]);
  expect(await here.here("repair", "container", "aa11", "--yes")).toMatchObject({ exit: 0 });
  expect((await here.explain("ip", address)).addresses).toMatchObject([{ address, standing: "free" }]);
});

it("pain 3: an agent that is away, a list that is empty and one that is missing are each the cause that is told", async () => {
  here.configure({ agent: "require" });
  here.agent = await Agent.start(here.node);
  await here.agent.kill();
  here.configure({ agent_wait_seconds: 1 });
  await here.add("web", "aa11");

  const away = await here.explain("pod", "default/web");
  here.writeList("10-tortie.conflist", "");
  const empty = await here.explain("pod", "default/web");
  renameSync(join(here.netDir, "10-tortie.conflist"), join(here.node.dir, "aside"));
  const missing = await here.explain("pod", "default/web");

  expect(away.summary).toContain("nothing is known of pod default/web");
  expect(away.results).toContainEqual(
    expect.objectContaining({ word: "agent-unreachable", next: expect.stringContaining("start tortie-node") }),
  );
  expect(wrongIn(empty)).toContainEqual(expect.stringMatching(/10-tortie\.conflist.* -> .*tortiectl install/));
  expect(missing.results).toContainEqual(
    expect.objectContaining({ group: "configuration", message: expect.stringContaining("there is no network configuration") }),
  );
});

it("pain 4: of a burst that the pool is too small for, each pod is told why, and nothing is leaked", async () => {
  here.configure({ ipam: SMALL });
  here.agent = await Agent.start(here.node);

  const pods = await Promise.all(Array.from({ length: 11 }, (_, number) => here.add(`web${number}`, `aa${number}`)));
  const refused = pods.filter(({ run }) => run.exit !== 0);
  const added = pods.filter(({ run }) => run.exit === 0);

  expect([added.length, refused.length]).toEqual([8, 3]);
  const name = refused[0]?.args.match(/K8S_POD_NAME=([^;]+)/)?.[1];
  const explained = await here.explain("pod", `default/${name}`);
  expect(explained.summary).toContain("its last ADD");
  expect(explained.next).toContain("add a pool");
  expect(explained.history[0]).toMatchObject({ event: "add", outcome: "failed", word: "addresses-exhausted" });
  expect(explained.history[0]?.steps.length).toBeGreaterThan(0);
  expect(wrongIn(await here.explain("ip", added[0]?.addresses[0] ?? ""))).toEqual([]);
});

it("pain 5: a DEL that cannot finish waits for the agent, does not fail, and is said to wait", async () => {
  const agent = await Agent.start(here.node);
  here.agent = agent;
  const web = await here.add("web", "aa11");
  await agent.kill();
  const conf = { ...here.conf, ...agent.netconf };
  const deleted = await here.node.cni("DEL", { pod: web.pod, conf, containerId: "aa11", args: web.args });

  const waiting = await here.explain("container", "aa11");
  await agent.restart();
  await agent.until("the DEL is carried out", async () => (await here.explain("container", "aa11")).standing === "past");

  expect(deleted.exit).toBe(0);
  expect(wrongIn(waiting)).toContainEqual(expect.stringMatching(/its DEL came at .* and waits for the agent.* -> start the agent/));
  expect((await here.explain("ip", web.addresses[0] ?? "")).addresses).toMatchObject([{ standing: "free" }]);
});

it("pain 6: two pods with one address are both named, with the rule that is broken", async () => {
  here.node.excuse("its store is damaged on purpose", "not-granted", "doubled", "miscounted");
  const web = await here.add("web", "aa11");
  await here.add("db", "bb22");
  await using store = openLocalDatastore(here.node.datastorePath);
  const db = (await store.endpoints.list()).find(({ value }) => value.pod === "db");
  if (db === undefined) throw new Error("no record");
  const key = { namespace: db.value.namespace, name: db.value.name };
  await store.endpoints.update(key, { ...db.value, ipNetworks: [`${web.addresses[0]}/32`] }, db.revision);

  const explained = await here.explain("ip", web.addresses[0] ?? "");

  expect(explained.summary).toMatch(/is used by 2 attachments: pod default\/(db|web), pod default\/(db|web)/);
  expect(explained.results).toContainEqual(
    expect.objectContaining({ status: "failed", word: "address-used-twice", next: expect.stringContaining("add all but one") }),
  );
});

it("pain 7: a route of another interface is named with that interface, which repair leaves alone", async () => {
  const web = await here.add("web", "aa11");
  const [address] = web.addresses;
  await here.node.ip("link", "add", "stale0", "type", "veth", "peer", "name", "stale1");
  await here.node.ip("link", "set", "stale0", "up");
  await here.node.ip("route", "replace", `${address}/32`, "dev", "stale0");

  const explained = await here.explain("pod", "default/web");
  const repaired = await here.here("repair", "pod", "default/web", "--yes");

  expect(wrongIn(explained)).toEqual([
    expect.stringMatching(
      /another interface has the pod's route.* -> .*ip route del .* dev stale0; then tortiectl repair pod default\/web/,
    ),
  ]);
  expect(repaired.exit).toBe(1);
  expect(await here.node.ip("-j", "route", "show", `${address}`)).toMatchObject([{ dev: "stale0" }]);
  await here.node.ip("route", "del", `${address}/32`, "dev", "stale0");
  expect(await here.here("repair", "pod", "default/web", "--yes")).toMatchObject({ exit: 0 });
  expect(await here.node.ip("-j", "route", "show", `${address}`)).toMatchObject([{ dev: web.hostInterface }]);
  expect(wrongIn(await here.explain("pod", "default/web"))).toEqual([]);
});

it("pain 8: no address of a pod is tentative in its first second, and one that was taken away inside is said to be the container's own doing", async () => {
  here.configure({ ipam: dualIpam("46") });
  const web = await here.add("web", "aa11");

  const first = await here.explain("pod", "default/web");
  await here.node.podIp(web.pod, "-6", "addr", "del", `${web.addresses[1]}/128`, "dev", "eth0");
  const later = await here.explain("pod", "default/web");

  expect([web.addresses.length, wrongIn(first)]).toEqual([2, []]);
  expect(first.attachments[0]?.sysctls).toContainEqual({
    path: expect.stringMatching(/ipv6\/conf\/cali.*\/accept_dad$/),
    wanted: "0",
    found: "0",
  });
  expect(wrongIn(later)).toEqual([expect.stringMatching(/address fd44:.*found missing -> something inside the container has changed it/)]);
});

it("pain 9: what other daemons do to a link is named with the likely one, and repair undoes it", async () => {
  const web = await here.add("web", "aa11");
  await here.node.run(["sysctl", "-w", `net.ipv4.conf.${web.hostInterface}.rp_filter=0`]);
  await here.node.ip("link", "set", web.hostInterface, "address", "02:00:00:00:00:01");
  await here.node.ip("route", "del", `${web.addresses[0]}/32`);

  const explained = await here.explain("interface", web.hostInterface);
  const repaired = await here.here("repair", "pod", "default/web", "--yes");

  const wrong = wrongIn(explained).join("\n");
  for (const sign of [
    /rp_filter.*another program has changed it.*sysctl\.d/,
    /MAC.*MACAddressPolicy/,
    /route .*systemd-networkd and NetworkManager/,
  ])
    expect(wrong).toMatch(sign);
  expect(repaired).toMatchObject({ exit: 0 });
  expect(wrongIn(await here.explain("pod", "default/web"))).toEqual([]);
});

it("pain 10: a failed ADD is told with its steps, their times, its error, its word and the next step", async () => {
  here.configure({ ipam: dualIpam("4", { ipv4_pools: ["10.99.0.0/16"] }) });
  here.agent = await Agent.start(here.node);
  const web = await here.add("web", "aa11");

  const explained = await here.explain("pod", "default/web");
  const [last] = explained.history;

  expect(web.run.exit).toBe(1);
  expect(last).toMatchObject({ event: "add", outcome: "failed", pod: "default/web", containerId: "aa11" });
  expect(last?.milliseconds).toBeGreaterThan(0);
  expect(last?.steps.map(({ name }) => name)).toContain("datastore");
  expect(explained.summary).toContain(last?.message);
  expect([explained.next, (await here.explain(last?.word ?? "")).next]).toEqual([last?.next, expect.any(String)]);
});

it("pain 11: an address that rests is said to rest until when, and who had it last", async () => {
  here.agent = await Agent.start(here.node);
  const first = await here.add("first", "cc33");
  await here.tortiectl("ipam", "configure", "--datastore", here.node.datastorePath, "--ip-cooldown-seconds", "600");
  const web = await here.add("web", "aa11");
  await here.del(web);

  const explained = await here.explain("ip", web.addresses[0] ?? "");

  expect(explained.addresses).toMatchObject([{ standing: "cooling", freeAgain: expect.stringMatching(/^20.*Z$/) }]);
  expect(explained.summary).toMatch(/kept from others until 20.*; pod default\/web had it from 20.* to 20/);
  expect((await here.explain("ip", first.addresses[0] ?? "")).summary).toContain("is pod default/first's");
});

it("pain 12: rules of portmap are shown while the pod lives, and as left behind when only Tortie's DEL came", async () => {
  here.agent = await Agent.start(here.node);
  const web = await here.add("web", "aa11");
  const runtimeConfig = { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }] };
  const conf = {
    cniVersion: "1.0.0",
    name: "net1",
    type: "portmap",
    capabilities: { portMappings: true },
    runtimeConfig,
    prevResult: web.run.json,
  };
  const portmap = (verb: string) =>
    here.node.cni(verb, { plugin: "/usr/lib/cni/portmap", pod: web.pod, conf, containerId: "aa11", env: { PATH: "/usr/sbin:/usr/bin" } });
  const mapped = await portmap("ADD");
  expect([mapped.exit, mapped.stdout]).toEqual([0, expect.any(String)]);

  const alive = await here.explain("pod", "default/web");
  await here.del(web);
  const left = await here.explain("pod", "default/web");
  await portmap("DEL");

  expect(alive.attachments[0]?.chained).toMatchObject([{ by: "portmap", place: expect.stringMatching(/^chain CNI-DN-/) }]);
  expect(wrongIn(left)).toEqual([
    expect.stringMatching(/^chain CNI-DN-.*portmap made it for container aa11, which has no network any more.* -> .*cni del/),
  ]);
  expect(wrongIn(await here.explain("pod", "default/web"))).toEqual([]);
});

it("pain 13: an MTU that the uplink does not take is told, and one that differs between the ends", async () => {
  const web = await here.add("web", "aa11");
  await here.node.ip("link", "add", "uplink0", "mtu", "1400", "type", "veth", "peer", "name", "uplink1");
  await here.node.ip("link", "set", "uplink0", "up");
  await here.node.ip("route", "add", "default", "dev", "uplink0");

  const large = await here.explain("pod", "default/web");
  await here.node.podIp(web.pod, "link", "set", "eth0", "mtu", "1300");
  const uneven = await here.explain("pod", "default/web");

  expect(large.attachments[0]?.mtu).toEqual({ hostEnd: 1500, podEnd: 1500, uplink: { name: "uplink0", mtu: 1400 } });
  expect(wrongIn(large)).toEqual([expect.stringMatching(/its MTU is 1500, but uplink0.*takes 1400 bytes -> set mtu .* to 1400/)]);
  expect(wrongIn(uneven)[0]).toMatch(/the host end has MTU 1500, the pod end 1300/);
});

it("pain 14: a list that somebody broke, or came before, is named with its line", async () => {
  await here.add("web", "aa11");
  here.writeList(
    "10-tortie.conflist",
    '{\n  "cniVersion": "1.0.0",\n  "name": "net1",\n  "plugins": [\n    { "type": "tortie", "mtu": "large" }\n  ]\n}\n',
  );

  const broken = await here.explain("pod", "default/web");
  here.configure({});
  here.writeList(
    "00-other.conflist",
    JSON.stringify({ cniVersion: "1.0.0", name: "other", plugins: [{ type: "ptp", ipam: { type: "host-local" } }] }),
  );
  const before = await here.explain("pod", "default/web");

  expect(wrongIn(broken)).toContainEqual(expect.stringMatching(/10-tortie\.conflist, line 5: .*mtu.* -> correct the file/));
  expect(wrongIn(before)).toContainEqual(
    expect.stringMatching(/00-other\.conflist: .*no plugin of Tortie's: new pods get another network -> rename/),
  );
});

it("pain 15: a version of CNI that nobody here speaks is told of the list, and its word explains itself", async () => {
  here.configure({ cniVersion: "1.9.0" });
  const web = await here.add("web", "aa11");

  const explained = await here.explain("pod", "default/web");
  const word = await here.explain("version-unsupported");

  expect(web.run.stdout).toContain("version-unsupported");
  expect(wrongIn(explained)).toContainEqual(expect.stringMatching(/10-tortie\.conflist.*"1\.9\.0"/));
  expect(word).toMatchObject({
    standing: "word",
    word: { word: "version-unsupported", code: 1 },
    next: "set cniVersion to one of the supported versions",
  });
});

it("pain 16: of a pod that wants two families and can have one, nothing is kept, and the missing one is told", async () => {
  const pools = [{ cidr: "10.244.0.0/24" }, { cidr: "fd44::/126", blockSize: 126 }];
  here.configure({ ipam: dualIpam("46", { pools }) });
  here.agent = await Agent.start(here.node);
  for (const name of ["a", "b", "c", "d"]) await here.add(name, `aa${name}`);
  const web = await here.add("web", "bb22");

  const explained = await here.explain("pod", "default/web");

  expect(web.run.exit).toBe(1);
  expect(explained.history[0]).toMatchObject({
    event: "add",
    outcome: "failed",
    word: "addresses-exhausted",
    message: expect.stringMatching(/IPv6|fd44/i),
  });
  expect([explained.standing, explained.attachments]).toEqual(["past", []]);
});

it("pain 17: an executable is replaced while it runs, and whoever runs the old one is told to restart", async () => {
  const programs = join(here.node.dir, "programs");
  mkdirSync(programs);
  copyFileSync(join(BIN_DIR, "tortie-node"), join(programs, "tortie-node"));
  here.agent = await Agent.start(here.node, { program: join(programs, "tortie-node") });

  copyFileSync(join(BIN_DIR, "tortie-node"), join(programs, "new"));
  renameSync(join(programs, "new"), join(programs, "tortie-node"));
  const web = await here.add("web", "aa11");
  const explained = await here.explain("pod", "default/web");

  expect(web.run.exit).toBe(0);
  expect(wrongIn(explained)).toEqual([
    expect.stringMatching(/runs an executable that has been replaced since: .*\(deleted\) -> restart the agent: pods keep their network/),
  ]);
});

it("explains who had an address at a time in the past, after the pod and a restart of the agent", async () => {
  const agent = await Agent.start(here.node);
  here.agent = agent;
  const web = await here.add("web", "aa11");
  const during = new Date().toISOString();
  await here.del(web);
  await agent.restart();
  const after = new Date().toISOString();
  const [address = ""] = web.addresses;

  const then = await here.explain("ip", address, "--at", during);

  expect(then).toMatchObject({ standing: "past", summary: expect.stringMatching(/^pod default\/web had 10\.244\..* from 20.* to 20/) });
  expect(await here.explain("ip", address, "--at", after)).toMatchObject({ standing: "absent" });
  const history = (...argv: string[]) => here.tortiectl("ipam", "history", address, "--socket", agent.socket, ...argv);
  expect(JSON.parse((await history("--json")).stdout)).toMatchObject([
    { address, pod: "default/web", containerId: "aa11", from: expect.any(String), until: expect.any(String) },
  ]);
  expect((await history("--at", after)).exit).toBe(1);
  writeFileSync(join(agent.runDir, "history", "history.jsonl"), "\u0000garbage\n".repeat(1000));
  expect(await history()).toMatchObject({ exit: 1, stderr: expect.stringContaining("nobody") });
});
