import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fresh, TemporaryDirectory } from "../../support/fixtures.ts";
import { HARNESS_AGENT } from "../../support/kubernetes/admin-client.ts";
import type { AuditedRequest } from "../../support/kubernetes/audit.ts";
import {
  compareRights,
  grantedRights,
  keepUse,
  keptUse,
  rightsByAccount,
  usedRights,
  useOfServer,
} from "../../support/kubernetes/role-use.ts";

const asked = (verb: string, uri: string, user = "tortie-node", userAgent = "tortie"): AuditedRequest => ({
  verb,
  uri,
  user: `system:serviceaccount:kube-system:${user}`,
  userAgent,
  status: 200,
  receivedUs: 0,
});
const folder = fresh(() => new TemporaryDirectory());
const rights = (...of: readonly string[]) => new Map([["tortie-node", new Set(of)]]);

describe("S5: what accounts asked for", () => {
  it.each([
    ["get", "/api/v1/namespaces/shop/pods/cart?timeout=1s", "get /pods"],
    ["list", "/api/v1/pods?watch=0", "list /pods"],
    ["get", "/api/v1/namespaces/shop", "get /namespaces"],
    ["patch", "/api/v1/namespaces/shop/pods/cart/status", "patch /pods/status"],
    ["patch", "/api/v1/nodes/node1/status", "patch /nodes/status"],
    ["update", "/apis/crd.projectcalico.org/v1/ipamblocks/10-0-0-0-26", "update crd.projectcalico.org/ipamblocks"],
    ["update", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", "update coordination.k8s.io/leases"],
    ["create", "/api/v1/namespaces/kube-system/serviceaccounts/x/token", "create /serviceaccounts/token"],
  ])("%s %s needs %s", (verb, uri, right) => {
    expect(usedRights([asked(verb, uri)])).toEqual(rights(right));
  });

  it("leaves out discovery, what the harness asks in an account's name, and accounts of other namespaces", () => {
    const requests = [
      asked("get", "/version"),
      asked("get", "/apis"),
      asked("get", "/apis/crd.projectcalico.org/v1"),
      asked("get", "/api/v1"),
      asked("get", "/api/v1/pods", "tortie-node", HARNESS_AGENT),
      { ...asked("get", "/api/v1/pods"), user: "system:serviceaccount:shop:tortie-node" },
    ];
    expect(usedRights(requests)).toEqual(new Map());
  });

  it("is kept over several API servers, and added up", () => {
    for (const [verb, time] of [
      ["get", "2026-01-01T00:00:00.000001Z"],
      ["list", "2026-01-01T00:00:00.000002Z"],
    ] as const) {
      const log = join(folder.path, "audit.log");
      const event = { verb, requestURI: "/api/v1/pods", user: { username: asked("", "").user }, requestReceivedTimestamp: time };
      writeFileSync(log, `${JSON.stringify(event)}\n`);
      keepUse(useOfServer(folder.path), join(folder.path, "kept"));
      renameSync(log, join(folder.path, `audit-${verb}.log`));
    }
    expect(useOfServer(folder.path)).toEqual(rights("get /pods", "list /pods"));
    expect(keptUse(join(folder.path, "kept"))).toEqual(rights("get /pods", "list /pods"));
  });
});

describe("S5: rights against their use", () => {
  it("are too few where something was asked for that no rule allows", () => {
    const problems = compareRights(rights("get /pods"), rights("get /pods", "delete /pods"), [], false);
    expect(problems).toEqual([expect.stringContaining('"delete /pods" was asked for')]);
  });

  it("are too many where nothing asked, once the whole suite has run, unless there is a reason", () => {
    const granted = rights("get /pods", "list /pods", "watch /nodes");
    const used = rights("get /pods");
    expect(compareRights(granted, used, [], false)).toEqual([]);
    const unused = [{ account: "tortie-node", rights: /^watch /, reason: "of a test" }];
    expect(compareRights(granted, used, unused, true)).toEqual([expect.stringContaining('"list /pods" is allowed')]);
    expect(compareRights(granted, new Map(), unused, true)).toHaveLength(2);
  });

  it("are not asked of accounts without a role of ours", () => {
    expect(
      compareRights(rights("get /pods"), new Map([...rights("get /pods"), ["test-admin", new Set(["list /pods"])]]), [], true),
    ).toEqual([]);
  });

  it("are read from roles through their bindings", () => {
    const role = (name: string, apiGroups: readonly string[], resource: string) => ({
      apiVersion: "v1",
      kind: "ClusterRole",
      metadata: { name },
      rules: [{ apiGroups, resources: [resource], verbs: ["get"] }],
    });
    const objects = [
      role("r", ["g", ""], "a"),
      role("unbound", [""], "b"),
      {
        apiVersion: "v1",
        kind: "ClusterRoleBinding",
        metadata: { name: "b" },
        roleRef: { kind: "ClusterRole", name: "r" },
        subjects: [{ name: "tortie-node" }],
      },
    ];
    expect(rightsByAccount(objects)).toEqual(rights("get g/a", "get /a"));
    expect([...grantedRights().keys()].sort()).toEqual(["calico-cni-plugin", "tortie-controller", "tortie-node"]);
  });
});
