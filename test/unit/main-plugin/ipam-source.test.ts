import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { findIpam, type IpamPlugin } from "../../../main-plugin/find-ipam.ts";
import { TemporaryDirectory } from "../../support/fixtures.ts";

const NOWHERE = "/nonexistent";
const PLUGINS = "/usr/lib/cni";

/** What a call that an executable handed to the agent says. */
function found(ipam: Readonly<Record<string, string | boolean>>, request: { path: string; ownIpam?: boolean }): IpamPlugin {
  return findIpam(request, decodeNetworkConfig({ name: "net1", type: "calico", ipam }));
}

describe("The IPAM plugin of a call that came over the socket", () => {
  it.each(["tortie-ipam", "calico-ipam"])("is served here when %s is the caller's own file, seen or not", (type) => {
    expect(found({ type }, { path: NOWHERE, ownIpam: true })).toMatchObject({ isInProcess: true, isOurs: true });
  });

  it("is another program when the caller does not say so", () => {
    expect(() => found({ type: "calico-ipam" }, { path: NOWHERE })).toThrow('failed to find plugin "calico-ipam" in path');
    expect(found({ type: "host-local" }, { path: PLUGINS })).toEqual({
      executable: `${PLUGINS}/host-local`,
      isInProcess: false,
      isOurs: false,
    });
  });

  it("is a program of its own where the configuration wants that", () => {
    const apart = { type: "calico-ipam", in_process: false };
    expect(() => found(apart, { path: NOWHERE, ownIpam: true })).toThrow('failed to find plugin "calico-ipam" in path');
    using directory = new TemporaryDirectory();
    const { path } = directory;
    symlinkSync(process.execPath, join(path, "calico-ipam"));
    expect(found(apart, { path })).toMatchObject({ isInProcess: false, isOurs: true });
    expect(found({ type: "calico-ipam" }, { path })).toMatchObject({ isInProcess: true, isOurs: true });
  });

  it.each(["calico", "host-local"])("is not the main plugin, whose name %s is the caller's own file too", (type) => {
    expect(() => found({ type }, { path: PLUGINS, ownIpam: true })).toThrow(/names a main plugin|failed to find plugin/);
  });

  it("has a name and no path, whatever the caller says", () => {
    expect(() => found({ type: "../tortie-ipam" }, { path: PLUGINS, ownIpam: true })).toThrow("invalid plugin name: ../tortie-ipam");
  });
});
