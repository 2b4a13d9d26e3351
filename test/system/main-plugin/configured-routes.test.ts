/** Routes that the configuration names (`ipam.routes`), as the kernel takes them. */
import { localConf } from "../../support/conf.ts";
import { Node } from "../../support/node.ts";

describe("Configured routes", () => {
  it("seven:4: lead to the network of a destination with host bits, in both families, and CHECK finds them", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const routes = [{ dst: "10.50.1.7/16" }, { dst: "fd50::7/64" }];
    const ranges = ["10.77.0.0/24", "fd77::/64"].map((subnet) => [{ subnet }]);
    const conf = localConf(node, { ipam: { type: "host-local", ranges, routes, dataDir: `${node.dir}/host-local` } });

    const added = await node.cni("ADD", { pod, conf });

    expect(added).toMatchObject({ exit: 0 });
    const destinations = async (family: string) =>
      (await node.run(["ip", family, "route", "show"], {}, pod)).stdout.split("\n").map((line) => line.split(" ")[0]);
    expect(await destinations("-4")).toContain("10.50.0.0/16");
    expect(await destinations("-6")).toContain("fd50::/64");
    expect(await node.cni("CHECK", { pod, conf: { ...conf, prevResult: added.json } })).toMatchObject({ exit: 0 });
  });
});
