/** What the plan of an attachment asks of the kernel: values that an end-to-end run inherits from elsewhere, and so cannot miss. */
import type { DesiredState } from "../../../dataplane/desired-state.ts";
import { type Address, formatPrefix } from "../../../lib/addresses/address.ts";
import type { JsonObject } from "../../../lib/json/value.ts";
import { resolveAddCall } from "../../../main-plugin/call.ts";
import { type AttachmentPlan, planAttachment } from "../../../main-plugin/plan.ts";
import { endpointResult } from "../../../main-plugin/plan-endpoint-form.ts";
import { desiredStateOf } from "../../../main-plugin/plan-routed-form.ts";
import { prefix } from "../../support/addresses.ts";
import { PodNode } from "../../support/pod-node.ts";

const PLAN: AttachmentPlan = {
  hostInterface: "cali1",
  podInterface: "eth0",
  owner: { network: "net", containerId: "c1", ifname: "eth0" },
  predecessors: [],
  device: { kind: "veth", mtu: 1500, queues: 1 },
  mac: undefined,
  destinations: [],
  allowIpForwarding: true,
  forwardOnNode: false,
};

function sysctlsOf(end: "host" | "pod", ...addresses: string[]): Map<string, string> {
  const { [end]: part } = desiredStateOf(PLAN, addresses.map(prefix), true);
  return new Map(part.sysctls.map(({ path, value }) => [path, value]));
}

describe("The settings of a link", () => {
  it("A3: let the host end forward IPv6 itself, where new links of the node do not", () => {
    expect(sysctlsOf("host", "fd00::1/128").get("net/ipv6/conf/cali1/forwarding")).toBe("1");
  });

  it("A4: decide about forwarding in the pod for the families that it has, and for no other", () => {
    const families = (...addresses: string[]) => {
      const sysctls = sysctlsOf("pod", ...addresses);
      return ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"].map((path) => sysctls.get(path));
    };
    expect(families("fd00::1/128")).toEqual([undefined, "1"]);
    expect(families("10.0.0.1/32")).toEqual(["1", undefined]);
    expect(families("10.0.0.1/32", "fd00::1/128")).toEqual(["1", "1"]);
  });

  it("enable IPv6 in a pod that has an address of it, on each scope, and in no other", () => {
    const enabled = (...addresses: string[]) => {
      const sysctls = sysctlsOf("pod", ...addresses);
      return ["all", "default", "lo"].map((scope) => sysctls.get(`net/ipv6/conf/${scope}/disable_ipv6`));
    };
    expect(enabled("10.0.0.1/32", "fd00::1/128")).toEqual(["0", "0", "0"]);
    expect(enabled("10.0.0.1/32")).toEqual([undefined, undefined, undefined]);
  });
});

describe("The addresses and routes of a link", () => {
  const planned = (address: string, hostRoutes: boolean) => desiredStateOf(PLAN, [prefix(address)], hostRoutes);

  it("give the host end the link-local gateway of IPv6, with the subnet of such addresses", () => {
    expect(planned("fd00::1/128", true).host.addresses.map(formatPrefix)).toEqual(["fe80::ecee:eeff:feee:eeee/64"]);
    expect(planned("10.0.0.1/32", true).host.addresses).toEqual([]);
  });

  it("lead from the pod to the destinations of its families", () => {
    const destinations = ["0.0.0.0/0", "::/0", "10.9.0.0/16"].map(prefix);
    const routes = (...addresses: string[]) =>
      desiredStateOf({ ...PLAN, destinations }, addresses.map(prefix), true).pod.routes.map(({ destination }) => formatPrefix(destination));
    expect(routes("10.0.0.1/32")).toEqual(["169.254.1.1/32", "0.0.0.0/0", "10.9.0.0/16"]);
    expect(routes("fd00::1/128")).toEqual(["::/0"]);
    expect(routes("10.0.0.1/32", "fd00::1/128")).toEqual(["169.254.1.1/32", "0.0.0.0/0", "10.9.0.0/16", "::/0"]);
  });

  it("lead from the node to the pod, but for the target of a live migration", () => {
    const destinations = ({ host }: DesiredState) => host.routes.map(({ destination }) => formatPrefix(destination));
    expect(destinations(planned("10.0.0.1/32", true))).toEqual(["10.0.0.1/32"]);
    expect(destinations(planned("10.0.0.1/32", false))).toEqual([]);
  });
});

describe("A link of form endpoint", () => {
  const ROUTERS = ["10.0.0.254/32", "fd00::fe/128"].map((text) => prefix(text).address);
  const plan = { ...PLAN, destinations: ["0.0.0.0/0", "::/0"].map(prefix), routers: ROUTERS };
  const desired = desiredStateOf(plan, ["10.0.0.1/32", "fd00::1/128"].map(prefix), true);

  it("forwards on the host end in the families that it has, without reverse path filtering", () => {
    const settings = (...addresses: string[]) => {
      const { host } = desiredStateOf(plan, addresses.map(prefix), true);
      const found = new Map(host.sysctls.map(({ path, value }) => [path.replace("net/", ""), value]));
      return ["ipv4/conf/cali1/rp_filter", "ipv4/conf/cali1/forwarding", "ipv6/conf/cali1/forwarding"].map((path) => found.get(path));
    };
    expect(settings("10.0.0.1/32")).toEqual(["0", "1", undefined]);
    expect(settings("fd00::1/128")).toEqual(["0", undefined, "1"]);
  });

  it("has a result whose addresses lie on the pod end, IPv6 first, each with its router", () => {
    expect(endpointResult(desired)).toEqual({
      ips: [
        { address: "fd00::1/128", gateway: "fd00::fe", interface: 1 },
        { address: "10.0.0.1/32", gateway: "10.0.0.254", interface: 1 },
      ],
      routes: [{ dst: "10.0.0.254/32" }, { dst: "0.0.0.0/0", gw: "10.0.0.254" }, { dst: "fd00::fe/128" }, { dst: "::/0", gw: "fd00::fe" }],
    });
  });

  it("needs a router of each family that it has", () => {
    const [ipv4] = ROUTERS;
    if (ipv4 === undefined) throw new Error("there are two");
    expect(() => desiredStateOf({ ...plan, routers: [ipv4] }, [prefix("fd00::1/128")], true)).toThrow("no IPv6 router address");
  });

  it("has the offload limits that the configuration names, and a routed one has none", async () => {
    await using node = await PodNode.create();
    const device = (conf: JsonObject, routers?: readonly Address[]) =>
      planAttachment(resolveAddCall(node.parts({ conf }).call), undefined, routers).device;
    const conf = { gro_max_size: 1, gso_max_size: 1 };
    expect(device(conf, ROUTERS)).toMatchObject({ groMaxSize: 1, gsoMaxSize: 1 });
    expect(Object.keys(device({}, ROUTERS))).not.toEqual(expect.arrayContaining(["groMaxSize"]));
    expect(Object.keys(device(conf))).not.toEqual(expect.arrayContaining(["groMaxSize"]));
  });
});
