/** What stands for the addresses of a container whose interfaces the store keeps together, as blocks do. */
import { type Holder, Witnesses, type WitnessParts } from "../../../../agent/sweep/witnesses.ts";
import { attachmentAlias } from "../../../../dataplane/alias.ts";
import { address } from "../../../support/addresses.ts";
import { podOf } from "../../../support/pods.ts";

const HOLDER: Holder = { network: "net", containerId: "c1", addresses: [address("10.62.0.3"), address("fd00::3")] };
const NOTHING: WitnessParts = { records: () => [], links: () => [], pods: undefined };

function mayUse(parts: Partial<WitnessParts>, holder = HOLDER): boolean {
  return new Witnesses({ ...NOTHING, ...parts }).mayUse(holder);
}

const linkWith = (alias: string): Partial<WitnessParts> => ({ links: () => [{ index: 7, name: "x", alias, isUp: true, kind: "veth" }] });

describe("The addresses of a container, whichever its interface,", () => {
  it.each([
    ["a link of one of its interfaces", { network: "net", containerId: "c1", ifname: "eth7" }, true],
    ["a link of another container", { network: "net", containerId: "c2", ifname: "eth0" }, false],
    ["a link of the container in another network", { network: "other", containerId: "c1", ifname: "eth0" }, false],
  ])("are asked of %s: %s", (_, name, expected) => {
    expect(mayUse(linkWith(attachmentAlias(name)))).toBe(expected);
  });

  it("are used where a link's alias is a digest, which does not say whose it is", () => {
    const alias = attachmentAlias({ network: "n".repeat(150), containerId: "c".repeat(150), ifname: "eth0" });
    expect(alias).toContain("sha256:");
    expect(mayUse(linkWith(alias))).toBe(true);
  });

  it("are not used by the link of another interface where the store tells interfaces apart", () => {
    const link = linkWith(attachmentAlias({ network: "net", containerId: "c1", ifname: "eth1" }));
    expect([mayUse(link, { ...HOLDER, ifname: "eth1" }), mayUse(link, { ...HOLDER, ifname: "eth0" })]).toEqual([true, false]);
  });

  it("S11: are asked of each pod's annotations once in a look, and of no other pod's", () => {
    const reads: string[] = [];
    const podNamed = (name: string) => ({
      ...podOf({ namespace: "default", name, uid: name, podIP: "10.0.0.8" }),
      get annotations() {
        reads.push(name);
        return { a: "10.0.0.9" };
      },
    });
    const pods = { isComplete: true, list: () => ["a", "b", "c"].map(podNamed), read: async () => undefined };
    const seen = new Witnesses({ ...NOTHING, pods });
    for (let times = 0; times < 5; times++) expect(seen.mayUse({ ...HOLDER, pod: "default/b" })).toBe(false);
    expect(reads).toEqual(["b"]);
  });

  it("are used as long as a pod names one of them", () => {
    const pod = podOf({ namespace: "default", name: "b", podIP: "fd00::3", podIPs: ["fd00::3"] });
    const pods = { isComplete: true, list: () => [pod], read: async () => undefined };
    expect(mayUse({ pods })).toBe(true);
    expect(mayUse({ pods }, { ...HOLDER, addresses: [address("10.62.0.4")] })).toBe(false);
  });
});
