/** Identities on a node without an API server: kept in its local store, from the labels that the runtime gives, while policy is on. */
import { join } from "node:path";
import { openLocalDatastore } from "../../../lib/datastore/local/local-datastore.ts";
import { labelSetOf, labelsOfPod } from "../../../lib/identity/labels.ts";
import { candidatesOf } from "../../../lib/identity/numbers.ts";
import { shared } from "../../support/fixtures.ts";
import { BIN_DIR } from "../../support/node.ts";
import { eventually, PolicyAgentNode, policy } from "../../support/policy-agent.ts";
import { reach } from "../../support/policy-node.ts";

const world = shared(() => PolicyAgentNode.create());

async function tortiectl(...argv: string[]): Promise<string> {
  return (await world.node.run([join(BIN_DIR, "tortiectl"), ...argv, "--socket", world.agent.socket])).stdout;
}

const NAMESPACE_LABELS = { "kubernetes.io/metadata.name": "shop" };
const setOf = (app: string) => labelSetOf(labelsOfPod({ namespace: "shop", labels: { app }, serviceAccountName: "" }, NAMESPACE_LABELS));
const numberOf = (app: string) => candidatesOf(setOf(app).key)[0] ?? 0;

describe("An agent without an API server", () => {
  it("gives one number to equal labels, keeps it in its store, and shows it in endpoints, explanations and drops", async () => {
    const [web, second, client] = [
      await world.attach("web", { labels: { app: "web" } }),
      await world.attach("second", { labels: { app: "web" } }),
      await world.attach("client", { labels: { app: "client" } }),
    ];
    await web.prober.ask("serve", { protocol: "tcp", port: 80 });

    const numbers = async () => {
      const endpoints: { status: { identity?: { id: number } } }[] = JSON.parse(await tortiectl("node", "endpoints", "--json"));
      return endpoints
        .map(({ status }) => status.identity?.id ?? -1)
        .sort()
        .join();
    };
    const expected = [numberOf("client"), numberOf("web"), numberOf("web")].sort().join();
    expect(await eventually(expected, numbers)).toBe(expected);
    await using store = openLocalDatastore(world.node.datastorePath);
    const rows = (await store.identities?.list()) ?? [];
    expect(rows.map(({ value }) => [value.number, value.key, value.state, value.createdBy]).sort()).toEqual(
      ["client", "web"].map((app) => [numberOf(app), setOf(app).key, "active", "tortie-node"]).sort(),
    );
    const list = await tortiectl("identity", "list");
    expect(list).toMatch(new RegExp(`^${numberOf("web")} +active +${setOf("web").labels.join(" ")}$`, "m"));
    expect(await tortiectl("identity", "show", String(numberOf("web")))).toMatch(
      /^pods here +shop\/(web, shop\/second|second, shop\/web)$/m,
    );

    world.write("deny", policy("deny", { podSelector: { matchLabels: { app: "web" } }, policyTypes: ["Ingress"] }));
    expect(await eventually("timeout", () => reach(client, web, "tcp", 80))).toBe("timeout");
    const explained = JSON.parse(await tortiectl("policy", "explain", "client", "web", "80", "--json"));
    expect([explained.from.identity, explained.to.identity]).toEqual([numberOf("client"), numberOf("web")]);
    const drops = async () => JSON.parse(await tortiectl("policy", "drops", "web", "--json")).drops;
    await eventually(true, async () => (await drops()).length > 0);
    expect((await drops()).at(-1)).toMatchObject({
      source: { pod: "shop/client", identity: numberOf("client") },
      destination: { pod: "shop/web", identity: numberOf("web") },
    });
    expect(await tortiectl("policy", "drops", "web")).toContain(`identity ${numberOf("client")})`);
    for (const pod of [web, second, client]) await world.detach(pod);
  });
});
