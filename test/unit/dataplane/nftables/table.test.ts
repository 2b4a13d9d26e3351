/** What is made in the node's table and what goes, by its names alone. What its rules do is the system suite's. */

import type { VxlanTunnel } from "../../../../dataplane/dataplane.ts";
import { changeOf, isUnchanged, leavesNothing, type Names, type TableParts } from "../../../../dataplane/nftables/table.ts";
import { address, prefix } from "../../../support/addresses.ts";

const peer = (number: number) => ({
  node: address(`172.20.${number}.1`),
  address: address(`10.9.${number}.0`),
  mac: `66:00:00:00:00:0${number}`,
});
const NOTHING: Names = { chains: [], sets: [] };
const TUNNEL: VxlanTunnel = {
  name: "vxlan.calico",
  vni: 4096,
  port: 4789,
  mtu: 1450,
  local: address("172.20.1.1"),
  address: address("10.9.0.0"),
  mac: "66:00:00:00:00:01",
  peers: [peer(2), peer(3)],
};
const pools = (store: string) => ({ store, outgoing: [prefix("10.9.0.0/16")], pools: [prefix("10.9.0.0/16"), prefix("fd09::/48")] });

const change = (parts: Partial<TableParts>, found = NOTHING) => changeOf("inet", { guardedPrefixes: [], ...parts }, found, true);
/** Names without their fingerprints. */
const kinds = (names: readonly string[]) => names.map((name) => name.replace(/-[0-9a-f]{16}$/, ""));

describe("the parts of a node's table", () => {
  const WHOLE: TableParts = { masquerading: pools("a"), guardedPrefixes: ["cali"], tunnels: [TUNNEL] };
  const whole = change(WHOLE);

  it("are made where they are missing", () => {
    expect(kinds(whole.sets.map(({ name }) => name)).sort()).toEqual(["node4", "outgoing4-a", "pools4-a", "pools6-a"]);
    expect(kinds(whole.chains.map(({ name }) => name)).sort()).toEqual(["from-cali", "peers", "tunnel"]);
    expect([isUnchanged(whole), leavesNothing(whole)]).toEqual([false, false]);
  });

  it("are left alone where they are there, and where nobody says anything of them", () => {
    for (const parts of [WHOLE, {}, { guardedPrefixes: ["cali"] }]) {
      const again = change(parts, whole.result);
      expect([isUnchanged(again), again.result]).toEqual([true, whole.result]);
    }
  });

  it("are replaced where the tunnels have other peers, and the guards stay", () => {
    const other = change({ ...WHOLE, tunnels: [{ ...TUNNEL, peers: TUNNEL.peers.slice(1) }] }, whole.result);
    expect(kinds(other.obsolete.chains).sort()).toEqual(["peers", "tunnel"]);
    expect(kinds(other.obsolete.sets)).toEqual(["node4"]);
    expect(kinds(other.chains.map(({ name }) => name)).sort()).toEqual(["peers", "tunnel"]);
    expect(kinds(other.result.chains)).toEqual(kinds(whole.result.chains));
  });

  it("of the tunnels go with the last of them", () => {
    const { obsolete, chains, result } = change({ tunnels: [] }, whole.result);
    expect([kinds(obsolete.chains).sort(), kinds(obsolete.sets), chains]).toEqual([["peers", "tunnel"], ["node4"], []]);
    expect(kinds(result.chains)).toEqual(["from-cali"]);
  });

  it("of one datastore are replaced, and those of another stay", () => {
    const second = change({ masquerading: pools("b") }, whole.result);
    expect(second.obsolete).toEqual(NOTHING);
    const gone = change({ masquerading: { store: "a", outgoing: [], pools: [] } }, second.result);
    expect(kinds(gone.obsolete.sets).sort()).toEqual(["outgoing4-a", "pools4-a", "pools6-a"]);
    expect(kinds(gone.result.sets).sort()).toEqual(["node4", "outgoing4-b", "pools4-b", "pools6-b"]);
  });

  it("may be none", () => {
    const tunnel = change({ tunnels: [TUNNEL] });
    expect(leavesNothing(tunnel)).toBe(false);
    expect(leavesNothing(change({ tunnels: [] }, tunnel.result))).toBe(true);
  });
});
