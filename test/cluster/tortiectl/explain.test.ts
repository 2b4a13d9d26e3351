/** Pain 2 of test/system/explain/pains.test.ts, and what explain and repair do in a cluster, where the record is the pod's annotations. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Explanation } from "../../../doctor/explain/explanation.ts";
import { wrongIn } from "../../support/explained-node.ts";
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode } from "../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { BIN_DIR } from "../../support/node.ts";

const cluster = shared(startCluster);

/** A node with the pod test/pod, whose list has this kubeconfig. */
async function attached(kubeconfig?: string) {
  const node = await ApiServerNode.create(cluster, { pools: ["10.60.0.0/26"], pods: ["pod"] });
  const netDir = join(node.node.dir, "net.d");
  mkdirSync(netDir);
  const write = (path: string) => {
    const { cniVersion, name, ...plugin } = node.conf({ kubernetes: { kubeconfig: path } });
    writeFileSync(join(netDir, "10-calico.conflist"), JSON.stringify({ cniVersion, name, plugins: [plugin] }));
  };
  write(kubeconfig ?? node.kubeconfig);
  const run = (...argv: string[]) => {
    const here = ["--net-dir", netDir, "--cache-dir", join(node.node.dir, "cni"), "--socket", join(node.node.dir, "run/tortie.sock")];
    const env = { PATH: "/usr/sbin:/usr/bin", CNI_PATH: `${BIN_DIR}:/usr/lib/cni` };
    return node.node.run([join(BIN_DIR, "tortiectl"), ...argv, ...here], { env });
  };
  const explain = async (...subject: string[]): Promise<Explanation> => JSON.parse((await run("explain", ...subject, "--json")).stdout);
  return { node, write, run, explain };
}

it("pain 2: credentials that the server does not take any more are the cause that is told, with how to renew them", async () => {
  const { node, write, explain } = await attached();
  await using _ = node;
  const expired = join(node.node.dir, "kubeconfig");
  const users = [{ name: "calico", user: { token: "long-expired" } }];
  writeFileSync(expired, JSON.stringify({ ...JSON.parse(readFileSync(node.kubeconfig, "utf8")), users }));
  write(expired);
  const failed = await node.call("ADD", { conf: { kubernetes: { kubeconfig: expired } } });

  const explained = await explain("pod", "test/pod");

  expect(failed.stdout).toContain("datastore-unauthorized");
  expect(wrongIn(explained)).toContainEqual(expect.stringMatching(/it refuses this host: .*Unauthorized.* -> renew the credentials/));
  expect(explained.results[0]?.word).toBe("datastore-unauthorized");
  expect(JSON.stringify(explained)).not.toContain("long-expired");
});

it("takes nothing for wrong that the plugins' account may not list, and shows the annotations that it may read", async () => {
  const { node, explain } = await attached();
  await using _ = node;
  const { ips } = await node.add();

  const explained = await explain("pod", "test/pod");

  expect(wrongIn(explained)).toEqual([]);
  expect(explained.attachments).toMatchObject([{ pod: "test/pod", annotations: { "cni.projectcalico.org/podIP": ips[0]?.address } }]);
  expect(explained.results).toContainEqual(expect.objectContaining({ status: "skipped", group: "addresses" }));
});

it("names annotations that do not say what the pod has, and repair writes them again", async () => {
  const { node, run, explain } = await attached(await cluster.kubeconfigFor("admin"));
  await using _ = node;
  const { ips } = await node.add();
  const right = await explain("pod", "test/pod");
  const annotations = { "cni.projectcalico.org/podIP": "10.60.0.99/32", "cni.projectcalico.org/podIPs": "10.60.0.99/32" };
  await cluster.api("PATCH", "/api/v1/namespaces/test/pods/pod", { metadata: { annotations } });

  const wrong = await explain("pod", "test/pod");
  const seen = await run("repair", "pod", "test/pod");
  const repaired = await run("repair", "pod", "test/pod", "--yes");

  expect(right.attachments).toMatchObject([{ pod: "test/pod", addresses: [ips[0]?.address.split("/")[0]] }]);
  expect(right.attachments[0]?.annotations).toMatchObject({ "cni.projectcalico.org/podIP": ips[0]?.address });
  expect(wrongIn(wrong).join("\n")).toContain("10.60.0.99");
  expect([seen.exit, repaired.exit]).toEqual([1, 0]);
  expect(await node.annotations()).toMatchObject({ podIP: ips[0]?.address, containerID: "c1" });
});

it("names the namespace's annotation where that has chosen the pool", async () => {
  const { node, explain } = await attached(await cluster.kubeconfigFor("admin"));
  await using _ = node;
  await node.pool("reserve", "10.61.0.0/26");
  const annotations = { "cni.projectcalico.org/ipv4pools": '["reserve"]' };
  await cluster.api("PATCH", "/api/v1/namespaces/test", { metadata: { annotations } });
  await node.add();

  const explained = await explain("pod", "test/pod");

  expect(explained.addresses).toMatchObject([
    {
      why: expect.stringMatching(
        /^pool 10\.61\.0\.0\/26 \(reserve\), one of those that the namespace's annotation ipv4pools names: \["reserve"\];/,
      ),
    },
  ]);
});
