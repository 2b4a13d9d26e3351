/** What the tests learn of the requests that a plugin made: the audit log, and the server's own counters. */
import { shared } from "../../support/fixtures.ts";
import { pathOf } from "../../support/kubernetes/resources.ts";
import { countsBetween, LEGACY, startCluster } from "../../support/kubernetes/test-cluster.ts";

const cluster = shared(startCluster);
beforeEach(() => cluster.reset());

const asPlugin = { headers: { "User-Agent": "plugin/1" } };

describe("the audit log", () => {
  it("lists requests in their order, with verb, path, account, program and answer", async () => {
    const token = await cluster.tokenFor("cni");
    await cluster.createPod("web");
    const mark = await cluster.mark();
    const patch = { metadata: { annotations: { a: "b" } } };
    await cluster.apiAs(token, "GET", pathOf(LEGACY, "ippools"), undefined, asPlugin);
    await cluster.apiAs(token, "GET", pathOf(LEGACY, "ippools", "none"), undefined, asPlugin);
    await cluster.apiAs(token, "GET", pathOf("v1", "secrets", undefined, "default"), undefined, asPlugin);
    await cluster.apiAs(token, "PATCH", `${pathOf("v1", "pods", "web", "default")}/status`, patch, asPlugin);
    const user = "system:serviceaccount:kube-system:calico-cni-plugin";
    expect(await cluster.requests(mark)).toEqual(
      [
        { verb: "list", uri: "/apis/crd.projectcalico.org/v1/ippools", status: 200 },
        { verb: "get", uri: "/apis/crd.projectcalico.org/v1/ippools/none", status: 404 },
        { verb: "list", uri: "/api/v1/namespaces/default/secrets", status: 403 },
        { verb: "patch", uri: "/api/v1/namespaces/default/pods/web/status", status: 200 },
      ].map((request) => ({ ...request, user, userAgent: "plugin/1", receivedUs: expect.any(Number) })),
    );
  });

  it("has nothing of the harness itself", async () => {
    const mark = await cluster.mark();
    await cluster.createPool("p");
    await cluster.reset();
    expect(await cluster.requests(mark)).toEqual([]);
  });

  it("has every request of many at once, none twice", async () => {
    const token = await cluster.tokenFor("cni");
    const mark = await cluster.mark();
    const names = Array.from({ length: 40 }, (_, index) => `p${index}`);
    await Promise.all(names.map((name) => cluster.apiAs(token, "GET", pathOf(LEGACY, "ippools", name), undefined, asPlugin)));
    const asked = (await cluster.requests(mark)).map(({ uri }) => uri);
    expect(asked.toSorted()).toEqual(names.map((name) => pathOf(LEGACY, "ippools", name)).toSorted());
  });
});

describe("the server's counters", () => {
  it("count by verb and resource, whatever the answer", async () => {
    const token = await cluster.tokenFor("cni");
    await cluster.createPod("web");
    const before = await cluster.requestCounts();
    for (const name of ["a", "b", "c"]) await cluster.apiAs(token, "GET", pathOf(LEGACY, "ippools", name));
    await cluster.apiAs(token, "GET", pathOf(LEGACY, "ippools"));
    await cluster.apiAs(token, "PATCH", `${pathOf("v1", "pods", "web", "default")}/status`, {});
    expect(countsBetween(before, await cluster.requestCounts())).toEqual(
      new Map([
        ["GET crd.projectcalico.org/ippools", 3],
        ["LIST crd.projectcalico.org/ippools", 1],
        ["PATCH pods/status", 1],
      ]),
    );
  });
});
