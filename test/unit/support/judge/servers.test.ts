/** What the judge reads from the raw objects of servers. */
import { violationsAtRest } from "../../../support/judge/at-rest.ts";
import { storeOfEtcd, storeOfResources } from "../../../support/judge/servers.ts";

const BLOCK = { cidr: "10.60.0.0/30", allocations: [null, 0, null, null], attributes: [{ handle_id: "net1.web" }] };
const GRANTS = [{ address: "10.60.0.1", handle: "net1.web" }];

describe("The store of a server", () => {
  it("is read from custom resources, whose deleted handles count nothing, and which have no endpoints", () => {
    const handles = [
      { handleID: "net1.web", block: { "10.60.0.0/30": 1 } },
      { handleID: "net1.gone", block: { "10.60.0.0/30": 1 }, deleted: true },
    ];
    expect(storeOfResources([BLOCK], handles)).toEqual({
      grants: GRANTS,
      blocks: ["10.60.0.0/30"],
      handles: new Map([["net1.web", 1]]),
      endpoints: [],
      lacksEndpoints: true,
    });
  });

  it("is read from the keys of etcd", () => {
    const contents = new Map(
      Object.entries({
        "/calico/ipam/v2/assignment/ipv4/block/10.60.0.0-30": BLOCK,
        "/calico/ipam/v2/handle/net1.web": { block: { "10.60.0.0/30": 1 } },
        "/calico/resources/v3/projectcalico.org/workloadendpoints/default/x": { spec: { containerID: "web", endpoint: "eth0" } },
        "/calico/resources/v3/projectcalico.org/ippools/pool": { spec: {} },
      }).map(([key, value]) => [key, JSON.stringify(value)]),
    );
    expect(storeOfEtcd(contents)).toEqual({
      grants: GRANTS,
      blocks: ["10.60.0.0/30"],
      handles: new Map([["net1.web", 1]]),
      endpoints: ["web eth0"],
    });
  });

  it("lets nothing follow from a missing endpoint where pods are the endpoints", () => {
    const link = { name: "caliweb", alias: "tortie:net1/web/eth0", index: 7, peer: 2, group: "default", addresses: [] };
    const host = { links: [link], routes: [], isForwarding: true, tables: [] };
    const wrong = (lacksEndpoints: boolean) =>
      violationsAtRest({ host, sandboxes: new Map(), store: { ...storeOfResources([], []), lacksEndpoints } }, []).map(({ rule }) => rule);
    expect(wrong(true)).toEqual([]);
    expect(wrong(false)).toEqual(["unasked"]);
  });
});
