import type { CniCall } from "../../../handover/call.ts";
import { callText, digestOf, parseCall, requestOf } from "../../../handover/call-body.ts";

const CALL = {
  protocol: 1,
  plugin: "0.9.0",
  containerId: "cid1",
  ifname: "eth0",
  args: "IgnoreUnknown=1",
  path: "/opt/cni/bin",
  netns: { path: "/run/netns/a", dev: 4, ino: 4026532281, fd: 7 },
  stdin: '{"cniVersion":"1.0.0","name":"net1","type":"tortie","big":1767225600000000001}',
  env: { FELIX_INTERFACEPREFIX: "tap", TRACEPARENT: "00-1" },
};

function decoded(changes: Record<string, unknown> = {}): CniCall {
  return parseCall(JSON.stringify({ ...CALL, ...changes }), "ADD");
}

describe("The body of a call", () => {
  it("stands for the request that an executable reads from its environment and standard input", () => {
    const call = decoded();
    expect(requestOf(call)).toMatchObject({
      command: "ADD",
      containerId: "cid1",
      interfaceName: "eth0",
      netns: "/run/netns/a",
      args: "IgnoreUnknown=1",
      path: "/opt/cni/bin",
      network: "net1",
    });
    expect(call.env.FELIX_INTERFACEPREFIX).toBe("tap");
    expect(new TextDecoder().decode(requestOf(call).stdin)).toBe(CALL.stdin);
  });

  it("may leave out what its verb does not need", () => {
    const call = parseCall(JSON.stringify({ protocol: 1, plugin: "x", stdin: CALL.stdin, pluginDirs: ["/a", "/b"] }), "GC");
    const env = { CNI_COMMAND: "GC", CNI_CONTAINERID: "", CNI_IFNAME: "", CNI_NETNS: "", CNI_PATH: "/a:/b" };
    expect(call).toMatchObject({ netns: { path: "" }, env });
  });

  it("has device and inode as numbers or as text", () => {
    expect(decoded().netns).toEqual({ path: "/run/netns/a", dev: "4", ino: "4026532281", fd: 7 });
    expect(decoded({ netns: { path: "/x", dev: "4", ino: "18446744073709551615" } }).netns.ino).toBe("18446744073709551615");
  });

  it.each([
    ["another protocol", { protocol: 2 }, "protocol-unsupported"],
    ["no protocol", { protocol: undefined }, "call-invalid"],
    ["no configuration", { stdin: undefined }, "call-invalid"],
    ["a member of another type", { containerId: 7 }, "call-invalid"],
    ["an inode that is none", { netns: { path: "/x", dev: 4, ino: "x" } }, "call-invalid"],
  ])("is refused with %s", (_, changes, word) => {
    expect(() => decoded(changes)).toThrow(expect.objectContaining({ word }));
  });

  it("is refused when it is no JSON", () => {
    expect(() => parseCall("{", "DEL")).toThrow(expect.objectContaining({ word: "call-invalid" }));
  });

  it("is kept with what decides something, and makes the same DEL again", () => {
    const kept = parseCall(callText(decoded()), "ADD");
    const { TRACEPARENT: _, ...env } = decoded().env;
    expect(kept).toEqual({
      ...decoded(),
      netns: { path: "/run/netns/a", dev: "4", ino: "4026532281" },
      env,
    });
    expect(digestOf(kept)).toBe(digestOf(decoded()));
  });

  it("is validated as an executable validates its input", () => {
    expect(() => requestOf(decoded({ containerId: "" }))).toThrow(expect.objectContaining({ word: "environment-missing" }));
  });
});

describe("The digest of a call", () => {
  it("tells calls with different results apart", () => {
    const digests = [{}, { ifname: "eth1" }, { args: "" }, { stdin: "{}" }, { env: { FELIX_INTERFACEPREFIX: "cali" } }].map((changes) =>
      digestOf(decoded(changes)),
    );
    expect(new Set(digests).size).toBe(digests.length);
  });

  it("is the same whatever else the caller's environment holds, and whichever sandbox is meant", () => {
    expect(digestOf(decoded({ env: { FELIX_INTERFACEPREFIX: "tap", TRACEPARENT: "00-2" }, netns: { path: "/y" } }))).toBe(
      digestOf(decoded()),
    );
  });
});
