/** Who makes the host's routes to the addresses of an attachment (C§2.3 S9). */
import { wantsHostRoutes } from "../../../main-plugin/ipam-source.ts";

const OURS = { isOurs: true };
const FOREIGN = { isOurs: false };
const ROUTES = [{ dst: "10.60.0.0/32" }];

describe("the host's routes to an attachment", () => {
  it.each([
    ["are Felix's to bring for the target of a migration, which our IPAM plugin marks by giving no routes", false, OURS, [], false],
    ["are made where our IPAM plugin gives routes", false, OURS, ROUTES, true],
    ["are made where another IPAM plugin gives no routes, which marks nothing", false, FOREIGN, [], true],
    ["are always made where there is no Felix", true, OURS, [], true],
  ])("%s", (_, forwardsOnNode, ipam, routes, expected) => {
    expect(wantsHostRoutes({ forwardsOnNode, ipam }, routes)).toBe(expected);
  });
});
