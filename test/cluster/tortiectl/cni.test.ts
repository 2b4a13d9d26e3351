/** `tortiectl cni` with the list that the README shows, on a node of a real cluster: what a runtime would do to one pod. */
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { shared } from "../../support/fixtures.ts";
import { connectNode } from "../../support/kubernetes/connect-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { BIN_DIR, Node, REFERENCE_PLUGINS_DIR, type RunResult } from "../../support/node.ts";

const cluster = shared(startCluster);
beforeEach(async () => {
  await cluster.reset();
  await cluster.setReady(true);
  await cluster.createNode("worker-1");
  await cluster.createPool("pods", { cidr: "10.60.0.0/24" });
});

/** The list of manifests/, with files of the test in place of the node's. */
async function conflist(node: Node): Promise<string> {
  const list: { readonly plugins: readonly [Record<string, unknown>] } = JSON.parse(
    readFileSync(resolve("manifests/conflist/10-tortie.conflist"), "utf8"),
  );
  Object.assign(list.plugins[0], {
    nodename: "worker-1",
    nodename_file_optional: true,
    ipam_lock_file: join(node.dir, "ipam.lock"),
    log_file_path: join(node.dir, "cni.log"),
    kubernetes: { kubeconfig: await cluster.kubeconfigFor("cni") },
  });
  const path = join(node.dir, "10-tortie.conflist");
  writeFileSync(path, JSON.stringify(list));
  return path;
}

describe("tortiectl cni on a cluster", () => {
  it("adds a pod, checks it and deletes it, as the list of manifests/ says", async () => {
    await using node = await Node.create();
    await connectNode(node, cluster);
    const sandbox = await node.addPod();
    await cluster.createPod("web", { node: "worker-1" });
    const list = await conflist(node);
    const pod = ["--container-id", "c1", "--cache-dir", node.dir, "--args", "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web"];
    const tortiectl = (verb: string): Promise<RunResult> =>
      node.run([join(BIN_DIR, "tortiectl"), "cni", verb, list, sandbox.netnsPath, ...pod], {
        env: { CNI_PATH: `${BIN_DIR}:${REFERENCE_PLUGINS_DIR}`, PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
      });

    expect(await tortiectl("add")).toMatchObject({ exit: 0, stdout: expect.stringContaining("ok eth0") });
    const [eth0] = await node.ip("-j", "-n", sandbox.name, "address", "show", "eth0");
    const { local }: { readonly local?: string } = Object((Object(eth0).addr_info ?? [])[0]);
    const { annotations } = (await cluster.get("v1", "pods", "web", "default"))?.metadata ?? {};
    expect(annotations).toEqual({
      "cni.projectcalico.org/containerID": "c1",
      "cni.projectcalico.org/podIP": `${local}/32`,
      "cni.projectcalico.org/podIPs": `${local}/32`,
    });

    expect(await tortiectl("check")).toMatchObject({ exit: 0 });
    expect(await tortiectl("del")).toMatchObject({ exit: 0 });
    expect((await cluster.get("v1", "pods", "web", "default"))?.metadata.annotations).toMatchObject({ "cni.projectcalico.org/podIP": "" });
    expect(await cluster.list("crd.projectcalico.org/v1", "ipamhandles")).toEqual([]);
  });
});
