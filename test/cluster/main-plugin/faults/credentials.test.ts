/** Tokens that expire, between two requests and between two operations, and tokens that nobody renews. */
import { readFileSync, writeFileSync } from "node:fs";
import { shared } from "../../../support/fixtures.ts";
import { ApiServerNode } from "../../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../../support/kubernetes/test-cluster.ts";

const FOREVER = Number.POSITIVE_INFINITY;
const UNAUTHORIZED = { kind: "answer", status: 401, message: "Unauthorized" } as const;

const cluster = shared(startCluster);
const proxy = shared(() => cluster.proxy());
beforeEach(() => proxy.clear());

/** A node whose plugins use the kubeconfig at `path`, into which `renew` writes a token. */
async function nodeWith(place: "the token file" | "the kubeconfig", token: string) {
  const node = await ApiServerNode.create(cluster, { via: proxy, pools: ["10.60.0.0/26"], pods: ["pod"] });
  const path = `${node.node.dir}/kubeconfig`;
  const tokenFile = `${node.node.dir}/token`;
  const template = JSON.parse(readFileSync(node.kubeconfig, "utf8"));
  const write = (user: object) => writeFileSync(path, JSON.stringify({ ...template, users: [{ name: "calico", user }] }));
  const renew = (fresh: string) => (place === "the kubeconfig" ? write({ token: fresh }) : writeFileSync(tokenFile, fresh));
  write({ tokenFile });
  renew(token);
  return { node, path, renew, call: { conf: { kubernetes: { kubeconfig: path } } } };
}

function tokensOfAnswers(status: number): Set<unknown> {
  return new Set(proxy.requests.filter((request) => request.status === status).map(({ headers }) => headers.authorization));
}

describe.each(["the token file", "the kubeconfig"] as const)("A token in %s that expires", (place) => {
  it.each([2, 8, 9, 10])("before request %i of an ADD is read again, and the ADD succeeds", async (nth) => {
    const [old, fresh] = [await cluster.tokenFor("cni"), await cluster.tokenFor("cni")];
    const { node, renew, call } = await nodeWith(place, old);
    await using _ = node;
    await node.add({ ...call, container: "c0" });
    proxy.clear();
    proxy.on({ token: old, nth: nth - 1 }, { kind: "before", action: () => renew(fresh) });
    proxy.on({ token: old, nth, times: FOREVER }, UNAUTHORIZED);

    const { ips } = await node.add({ ...call, sandbox: await node.sandbox("new") });

    expect(tokensOfAnswers(401)).toEqual(new Set([`Bearer ${old}`]));
    expect(proxy.requests.at(-1)?.headers.authorization).toBe(`Bearer ${fresh}`);
    expect((await node.held())["net1.c1"]).toHaveLength(1);
    expect(await node.annotations()).toMatchObject({ podIP: ips[0]?.address, containerID: "c1" });
  });

  it("between an ADD and its DEL is not used any more", async () => {
    const [old, fresh] = [await cluster.tokenFor("cni"), await cluster.tokenFor("cni")];
    const { node, renew, call } = await nodeWith(place, old);
    await using _ = node;
    await node.add(call);
    renew(fresh);
    proxy.on({ token: old, times: FOREVER }, UNAUTHORIZED);

    await node.del(call);

    expect(tokensOfAnswers(401)).toEqual(new Set());
    await node.expectNothingLeft("pod");
  });
});

describe("A token that the server does not know", () => {
  it("and that stays is tried twice, named by its place, and nothing is touched", async () => {
    const { node, path, call } = await nodeWith("the kubeconfig", "long-expired");
    await using _ = node;

    const { exit, json, stderr } = await node.call("ADD", call);

    expect(exit).toBe(1);
    expect(json).toEqual({
      code: 999,
      msg: expect.stringMatching(/^error getting ClusterInformation: connection is unauthorized: Unauthorized/),
      details: expect.stringMatching(/^datastore-unauthorized: .*renew/),
    });
    expect((json as { msg: string }).msg).toContain(`user "calico" of ${path}`);
    expect(`${JSON.stringify(json)}${stderr}`).not.toContain("long-expired");
    const asked = proxy.requests.map(({ method, path }) => `${method} ${path.replace(/^.*\/v1\//, "")}`);
    expect(asked).toEqual(["GET clusterinformations/default", "GET clusterinformations/default"]);
    expect(tokensOfAnswers(200)).toEqual(new Set());
    await node.expectNothingLeft("pod");
  });

  it.each([9, 10])("from request %i of an ADD on fails it, and the DEL with a new one leaves nothing", async (nth) => {
    const { node, path, call } = await nodeWith("the token file", await cluster.tokenFor("cni"));
    await using _ = node;
    await node.add({ ...call, container: "c0" });
    await node.del({ ...call, container: "c0" });
    proxy.clear();
    proxy.on({ nth, times: FOREVER }, UNAUTHORIZED);

    const refusal = await node.refusal("ADD", call);

    expect(refusal).toContain("connection is unauthorized");
    expect(refusal).toContain(path);
    await node.node.expectClean();
    proxy.clear();
    await node.del(call);
    await node.expectNothingLeft("pod");
  });
});
