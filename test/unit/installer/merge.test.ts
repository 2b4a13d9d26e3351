/** What of an edited conflist stays when it is installed again. */
import { mergeConflists } from "../../../installer/merge.ts";

const list = (...plugins: readonly Record<string, unknown>[]) => JSON.stringify({ name: "k8s-pod-network", cniVersion: "1.0.0", plugins });
const MAIN = { type: "tortie", mtu: 1500, log_level: "info" };
const PORTMAP = { type: "portmap", snat: true };
const MESH = { type: "istio-cni", kubernetes: { exclude_namespaces: ["kube-system"] } };

describe("mergeConflists", () => {
  it("installs our text byte for byte where nobody has edited the file", () => {
    const [base, ours] = [list(MAIN, PORTMAP), `${list({ ...MAIN, mtu: 9000 }, PORTMAP)}\n`];

    expect(mergeConflists(base, base, ours)).toEqual({ text: ours, remarks: [] });
  });

  it("keeps a plugin that another tool has put into the chain, where it stood", () => {
    const merge = mergeConflists(list(MAIN, PORTMAP), list(MAIN, MESH, PORTMAP), list({ ...MAIN, mtu: 9000 }, PORTMAP));

    expect(JSON.parse(merge.text).plugins).toEqual([{ ...MAIN, mtu: 9000 }, MESH, PORTMAP]);
    expect(merge.remarks).toEqual(["plugin istio-cni, which somebody else added, stays"]);
  });

  it("keeps a value that an administrator has set, unless the installer changes the same one", () => {
    const theirs = list({ ...MAIN, log_level: "debug", mtu: 1400 }, PORTMAP);
    const merge = mergeConflists(list(MAIN, PORTMAP), theirs, list({ ...MAIN, mtu: 9000 }, PORTMAP));

    expect(JSON.parse(merge.text).plugins).toEqual([{ ...MAIN, log_level: "debug", mtu: 9000 }, PORTMAP]);
    expect(merge.remarks).toEqual([
      "tortie.mtu was changed by somebody else and is replaced",
      "tortie.log_level keeps the value that somebody else gave it",
    ]);
  });

  it("does not bring back a plugin that an administrator has removed", () => {
    const merge = mergeConflists(list(MAIN, PORTMAP), list(MAIN), list(MAIN, PORTMAP));

    expect(JSON.parse(merge.text).plugins).toEqual([MAIN]);
    expect(merge.remarks).toEqual(["plugin portmap stays removed"]);
  });

  it("D9: drops a plugin that the installer's list no longer has, from a file that others have edited too", () => {
    const merge = mergeConflists(list(MAIN, PORTMAP), list(MAIN, MESH, PORTMAP), list(MAIN));

    expect(JSON.parse(merge.text).plugins).toEqual([MAIN, MESH]);
    expect(merge.remarks).toEqual(["plugin istio-cni, which somebody else added, stays"]);
  });

  it("takes only other plugins over from a file whose origin it does not know, and never two main plugins", () => {
    const merge = mergeConflists(undefined, list({ type: "calico", mtu: 1 }, MESH), list(MAIN, PORTMAP));

    expect(JSON.parse(merge.text).plugins).toEqual([MAIN, MESH, PORTMAP]);
  });

  it.each(["", "{", "[]", "null"])("replaces a file that is no list: %j", (theirs) => {
    const ours = list(MAIN);

    expect(mergeConflists(undefined, theirs, ours)).toEqual({ text: ours, remarks: ["the file was no JSON object and is replaced"] });
  });

  it("keeps integers beyond 2^53 as they are", () => {
    const theirs = list(MAIN, PORTMAP).replace("true", 'true,"big":9007199254740993');

    expect(mergeConflists(list(MAIN, PORTMAP), theirs, list(MAIN, PORTMAP)).text).toContain("9007199254740993");
  });
});
