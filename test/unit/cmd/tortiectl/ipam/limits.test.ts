import { limitsOf } from "../../../../../cmd/tortiectl/ipam/show.ts";
import type { IPPool } from "../../../../../lib/datastore/resources.ts";
import { samplePool } from "../../../../support/samples.ts";

describe("the limits of a pool", () => {
  it.each<[Partial<IPPool>, readonly string[]]>([
    [{}, []],
    [{ nodeSelector: "all()", namespaceSelector: "" }, []],
    [{ allowedUses: ["Workload", "Tunnel"] }, []],
    [{ disabled: true, deleting: true }, ["disabled", "being deleted"]],
    [{ allocatable: false }, ["not allocatable"]],
    [{ allowedUses: ["Tunnel", "LoadBalancer"] }, ["only for Tunnel, LoadBalancer"]],
    [{ assignmentMode: "Manual" }, ["only for who names it"]],
    [{ nodeSelector: "zone == 'a'", namespaceSelector: "has(team)" }, ["nodes zone == 'a'", "namespaces has(team)"]],
  ])("of %j are %j", (changes, limits) => {
    expect(limitsOf(samplePool("p", "10.40.0.0/24", changes))).toEqual(limits);
  });
});
