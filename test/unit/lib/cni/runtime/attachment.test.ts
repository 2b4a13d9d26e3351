import { checkAttachment, defaultContainerId, netnsPath, sandboxExists } from "../../../../../lib/cni/runtime/plugin-call.ts";
import { containerHostInterfaceName } from "../../../../../lib/workload/names.ts";

const GOOD = { containerId: "cid-1", netns: "/run/netns/a", interfaceName: "eth0", args: undefined, capabilityArgs: undefined };

describe("an attachment from the command line", () => {
  it("has its namespace by name below /run/netns, or by path", () => {
    expect(netnsPath("blue")).toBe("/run/netns/blue");
    expect(netnsPath("/proc/1/ns/net")).toBe("/proc/1/ns/net");
    expect(netnsPath("./blue")).toBe(`${process.cwd()}/blue`);
  });

  it("has the same container id for the same namespace, and another for another", () => {
    expect(defaultContainerId("/run/netns/a")).toBe(defaultContainerId("/run/netns/a"));
    expect(defaultContainerId("/run/netns/a")).not.toBe(defaultContainerId("/run/netns/b"));
    expect(() => checkAttachment({ ...GOOD, containerId: defaultContainerId("/run/netns/a") })).not.toThrow();
  });

  it("W4: has a container id whose first eleven characters differ between 1,000 namespaces", () => {
    const ids = Array.from({ length: 1000 }, (_, index) => defaultContainerId(`/run/netns/t${index}`));
    expect(new Set(ids.map((id) => containerHostInterfaceName(id))).size).toBe(ids.length);
  });

  it("knows whether its sandbox is still there", () => {
    expect([sandboxExists("/proc/self/ns/net"), sandboxExists("/run/netns/never-made"), sandboxExists("")]).toEqual([true, false, false]);
  });

  it.each(["", "a=b", "A=b;C=d", "LABELS=x=y"])("may have CNI_ARGS %j", (args) => {
    expect(checkAttachment({ ...GOOD, args })).toEqual({ ...GOOD, args });
  });

  it.each([
    [{ containerId: "" }, 'container id ""'],
    [{ containerId: "a b" }, 'container id "a b"'],
    [{ interfaceName: "" }, 'interface name ""'],
    [{ interfaceName: "a234567890123456" }, "interface name"],
    [{ interfaceName: "eth:0" }, "interface name"],
    [{ interfaceName: ".." }, "interface name"],
    [{ args: "A" }, '--args: "A"'],
    [{ args: "A=b;=c" }, '--args: "=c"'],
  ])("with %j is refused, naming it", (change, named) => {
    expect(() => checkAttachment({ ...GOOD, ...change })).toThrow(
      expect.objectContaining({ word: "option-invalid", message: expect.stringContaining(named) }),
    );
  });
});
