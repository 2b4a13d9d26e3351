/** What an explanation shows of a pod that is as it should be, whatever it is asked by; and what it says of a name that is none. */
import { Agent } from "../../support/agent.ts";
import { dualIpam } from "../../support/conf.ts";
import { ExplainedNode, wrongIn } from "../../support/explained-node.ts";
import { fresh } from "../../support/fixtures.ts";

const here = fresh(ExplainedNode.create);

const TIME = expect.stringMatching(/^20\d\d-.*Z$/);

it("shows who, since when, why this address, block, route, settings, rules, MTU, chained plugins and the history, by any name of it", async () => {
  here.configure({ ipam: dualIpam("4") });
  here.agent = await Agent.start(here.node);
  const web = await here.add("web", "aa11");
  const fixed = await here.add("fixed", "bb22", { ip: "10.244.7.7" });
  const rate = { ingressRate: 8_000_000, ingressBurst: 8_000_000, egressRate: 8_000_000, egressBurst: 8_000_000 };
  const conf = { cniVersion: "1.0.0", name: "net1", type: "bandwidth", runtimeConfig: { bandwidth: rate }, prevResult: web.run.json };
  const plugin = { plugin: "/usr/lib/cni/bandwidth", pod: web.pod, containerId: "aa11", env: { PATH: "/usr/sbin:/usr/bin" } };
  const limited = await here.node.cni("ADD", { ...plugin, conf: { ...conf, capabilities: { bandwidth: true } } });
  expect([limited.exit, limited.stdout]).toEqual([0, expect.any(String)]);
  const [address = ""] = web.addresses;

  const byName = [
    await here.explain("pod", "default/web"),
    await here.explain("ip", address),
    await here.explain("interface", web.hostInterface),
    await here.explain("container", "aa"),
  ];

  for (const explained of byName) {
    const { attachments, addresses, history, next, standing, summary } = explained;
    expect([standing, next, wrongIn(explained)]).toEqual(["present", "nothing: all is as it should be", []]);
    expect(summary).toMatch(/pod default\/web/);
    expect(attachments).toMatchObject([
      {
        pod: "default/web",
        containerId: "aa11",
        network: "net1",
        since: TIME,
        state: "ready",
        hostEnd: { name: web.hostInterface, state: "up", mtu: 1500 },
        podEnd: { name: "eth0", state: "up", mtu: 1500 },
        mtu: { hostEnd: 1500, podEnd: 1500 },
        netns: web.pod.netnsPath,
        chained: [{ by: "bandwidth", isPresent: true, place: expect.stringMatching(/^link bwp/) }],
      },
    ]);
    expect(attachments[0]?.routes).toContainEqual({ side: "host", wanted: `${address}/32 dev ${web.hostInterface}` });
    expect(attachments[0]?.sysctls).toContainEqual({ path: `net/ipv4/conf/${web.hostInterface}/rp_filter`, wanted: "1", found: "1" });
    expect(attachments[0]?.rules).toContainEqual(expect.objectContaining({ by: "tortie", place: "table inet tortie", isPresent: true }));
    expect(addresses).toEqual([
      expect.objectContaining({
        address,
        standing: "used",
        since: TIME,
        pod: "default/web",
        pool: expect.stringMatching(/^10\.244\.0\.0\/16/),
        block: expect.stringMatching(/^10\.244\..*\/26$/),
        blockOwner: "host node1",
        handle: expect.stringContaining("aa11"),
        why: expect.stringMatching(/^pool 10\.244\.0\.0\/16.*first enabled one.*its block belongs to host node1/),
      }),
    ]);
    const added = history.find(({ event }) => event === "add");
    expect(added).toMatchObject({ outcome: "ok", time: TIME, milliseconds: expect.any(Number), addresses: [address] });
    expect(added?.steps.map(({ name }) => name)).toEqual(expect.arrayContaining(["ipam", "dataplane", "endpoint"]));
  }
  const asked = await here.explain("ip", fixed.addresses[0] ?? "");
  expect(asked.addresses).toMatchObject([{ address: "10.244.7.7", why: expect.stringMatching(/^the runtime asks for it/) }]);
});

it("says of what is nobody's, or no name, what was probably meant and where to look", async () => {
  await here.add("web", "aa11");
  const outside = await here.explain("ip", "192.0.2.1");
  expect([outside.standing, outside.next]).toEqual(["absent", expect.stringContaining("not Tortie's to give")]);
  expect(outside.results.filter(({ group }) => group === "addresses")).toEqual([]);
  expect((await here.explain("interface", "lo")).next).toContain("tortiectl node endpoints");
  for (const [subject, next] of [
    [["pod", "web"], "tortiectl explain pod default/web"],
    [["default/web"], "did you mean: tortiectl explain pod default/web"],
    [["10.244.0.1"], "did you mean: tortiectl explain ip 10.244.0.1"],
    [["adresses-exhausted"], "did you mean: tortiectl explain addresses-exhausted"],
    [["pod"], "argument-missing"],
  ] as const) {
    expect(await here.here("explain", ...subject)).toMatchObject({ exit: 2, stderr: expect.stringContaining(next) });
  }
});
