/** The commands of docs/how-to/explain.md, as they stand, on a host with an agent and one pod. */

import { Agent } from "../../support/agent.ts";
import { Node } from "../../support/node.ts";
import { commandsOf } from "../../support/page.ts";
import { PageHost } from "../../support/page-host.ts";

const LIST = `{ "cniVersion": "1.0.0", "name": "pods", "plugins": [{ "type": "tortie", "agent": "require", "datastore_type": "local",
  "ipam": { "type": "tortie-ipam", "pools": [{ "cidr": "10.244.0.0/16" }] } }] }`;
const POD = "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web";
const ATTACH = `mkdir -p /etc/cni/net.d; cat >/etc/cni/net.d/10-tortie.conflist <<'END'
${LIST}
END
tortiectl cni add /etc/cni/net.d/10-tortie.conflist NETNS --container-id aa11 --args '${POD}'`;

it("docs/how-to/explain.md explains a pod, repairs its route and knows who had its address", async () => {
  await using node = await Node.create({ binds: { "/run/tortie": "run" } });
  await using _agent = await Agent.start(node);
  await using host = await PageHost.create({}, node);
  const pod = await node.addPod("web");
  await host.run(ATTACH.replace("NETNS", pod.netnsPath));

  const explained = await host.run(commandsOf("how-to/explain.md", "## Ask").join(""));
  const [, address = ""] = /has (10\.244\.\S+)/.exec(explained) ?? [];
  await node.ip("route", "del", `${address}/32`);
  const repaired = await host.run(commandsOf("how-to/explain.md", "## Repair").join(""));
  const past = await host.run(commandsOf("how-to/explain.md", "## Ask about the past").join(""));
  const others = await host.run(
    [`ip ${address}`, "container aa", "addresses-exhausted"].map((what) => `tortiectl explain ${what}`).join("\n"),
  );

  expect(explained).toMatch(/^pod default\/web has 10\.244\..* since 20/);
  expect(repaired).toMatch(/mended: host route 10\.244\./);
  expect(past).toMatch(new RegExp(`^${address} +20\\S+ +now +default/web +aa11$`, "m"));
  expect(others).toMatch(/is pod default\/web's[\s\S]*pod default\/web has[\s\S]*addresses-exhausted is a word/);
  await host.run(`tortiectl cni del /etc/cni/net.d/10-tortie.conflist ${pod.netnsPath} --container-id aa11 --args '${POD}'`);
});
