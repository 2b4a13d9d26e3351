/** What the plan of an attachment asks of the kernel: values that an end-to-end run inherits from elsewhere, and so cannot miss. */
import type { DesiredState } from "../../../dataplane/desired-state.ts";
import { formatPrefix } from "../../../lib/addresses/address.ts";
import type { AttachmentPlan } from "../../../main-plugin/attachment/attachment-plan.ts";
import { desiredStateOf } from "../../../main-plugin/plan.ts";
import { prefix } from "../../support/desired-state.ts";

const PLAN: AttachmentPlan = {
  hostInterface: "cali1",
  podInterface: "eth0",
  owner: { network: "net", containerId: "c1", interfaceName: "eth0" },
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

  it("lead from the node to the pod, but for the target of a live migration", () => {
    const destinations = ({ host }: DesiredState) => host.routes.map(({ destination }) => formatPrefix(destination));
    expect(destinations(planned("10.0.0.1/32", true))).toEqual(["10.0.0.1/32"]);
    expect(destinations(planned("10.0.0.1/32", false))).toEqual([]);
  });
});
