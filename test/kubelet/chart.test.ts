/**
 * A release as users get it: pushed to a real registry, installed from there by Helm as docs/how-to/install-cluster.md says it, and the image pulled by the
 * containerd of a node with the real kubelet.
 */
import { VERSION_OF_PACKAGE } from "../../scripts/image/archive.ts";
import { shared } from "../support/fixtures.ts";
import { REGISTRY } from "../support/kubelet/configurations.ts";
import { ControlPlane } from "../support/kubelet/control-plane.ts";
import { KubeletNode } from "../support/kubelet/kubelet-node.ts";
import { Registry } from "../support/kubelet/registry.ts";
import { tryPod } from "../support/kubelet/try-pod.ts";
import { startCluster } from "../support/kubernetes/test-cluster.ts";
import { commandsOf } from "../support/page.ts";

const cluster = shared(() => startCluster({ isBare: true }));
const node = shared(() => KubeletNode.start(cluster, { binDir: "/opt/cni/bin", netDir: "/etc/cni/net.d" }));
const control = shared(() => new ControlPlane(cluster));
const registry = shared(Registry.start);
beforeAll(() => registry.pushRelease());

it("`helm install` from a registry brings a node from nothing to a Ready pod, and `helm test` asks through the network of one", async () => {
  const [install = "", test = "", ...others] = commandsOf("how-to/install-cluster.md", "### With Helm");
  expect(others).toEqual([]);
  await control.run(install.replaceAll("oci://REGISTRY/charts/tortie", `oci://${REGISTRY}/charts/tortie --plain-http`));
  await node.untilNodeReady();
  expect(node.ctr("images", "list", "-q").split("\n")).toContain(`${REGISTRY}/tortie:${VERSION_OF_PACKAGE}`);
  // Without kubeadm: exactly the range that the controller manager gave the node.
  expect(await tryPod(node, "charted")).toMatch(/^10\.244\./);
  expect(await control.run("kubectl get ippools -o name")).toMatch(/^ippool.crd.projectcalico.org\/nodes-10-244-\d+-0-24\n$/);
  const tested = await control.run(test);
  expect(tested).toContain("Phase:          Succeeded");
  expect(tested).toMatch(/10\.244\.\d+\.\d+ is used/);
  expect(tested).toContain("kube-system/tortie-test");
  expect(await node.failedAdds()).toEqual([]);
});
