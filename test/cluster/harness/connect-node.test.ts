/** The API server inside a pretend node's namespace: reachable, and nothing more there than before. */
import { shared } from "../../support/fixtures.ts";
import { connectNode } from "../../support/kubernetes/connect-node.ts";
import { commandLines } from "../../support/kubernetes/process.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { Node } from "../../support/node.ts";

const cluster = shared(startCluster);

const ask = (node: Node, server: string) =>
  node.run(["/usr/bin/curl", "--silent", "--cacert", cluster.caPath, "--max-time", "10", `${server}/version`]);

describe("connectNode", () => {
  it("brings the API server to the node's own 127.0.0.1, without link, address or route", async () => {
    await using node = await Node.create();
    const see = async () => ({
      left: await node.leftovers(),
      links: await node.ip("-j", "link", "show"),
      addresses: await node.ip("-j", "address", "show"),
    });
    const before = await see();
    expect((await ask(node, cluster.server)).exit).not.toBe(0);
    await connectNode(node, cluster);
    const { exit, stdout } = await ask(node, cluster.server);
    expect({ exit, version: JSON.parse(stdout) }).toMatchObject({ exit: 0, version: { major: "1" } });
    expect(await see()).toEqual(before);
  });

  it("serves many nodes, and a proxy too", async () => {
    await using proxy = await cluster.proxy();
    await using first = await Node.create();
    await using second = await Node.create();
    for (const node of [first, second]) {
      await connectNode(node, cluster);
      await connectNode(node, proxy);
    }
    const exits = await Promise.all([first, second].flatMap((node) => [ask(node, cluster.server), ask(node, proxy.server)]));
    expect(exits.map(({ exit }) => exit)).toEqual([0, 0, 0, 0]);
    expect(proxy.requests.map(({ path }) => path)).toEqual(["/version", "/version"]);
  });

  it("breaks when the server stops, and works again when it is back", async () => {
    await using node = await Node.create();
    await connectNode(node, cluster);
    await cluster.stopApiServer();
    expect((await ask(node, cluster.server)).exit).not.toBe(0);
    await cluster.startApiServer();
    expect((await ask(node, cluster.server)).exit).toBe(0);
  });

  it("leaves no process when node and proxy are gone", async () => {
    let port = 0;
    {
      await using proxy = await cluster.proxy();
      await using node = await Node.create();
      await connectNode(node, proxy);
      port = proxy.port;
      expect(processesWith(`:${port}`)).not.toEqual([]);
    }
    expect(processesWith(`:${port}`)).toEqual([]);
  });
});

/** Command lines of socat that contain `text`. */
function processesWith(text: string): string[] {
  const lines = commandLines().map((line) => line.join(" "));
  return lines.filter((line) => line.includes("socat") && line.includes(text));
}
