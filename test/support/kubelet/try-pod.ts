/** One pod from its making to its end. */
import type { KubeletNode } from "./kubelet-node.ts";
import { NODE_ADDRESS } from "./pretend-host.ts";

/** Makes a pod, has it reach the node, and takes it away. @returns its address */
export async function tryPod(node: KubeletNode, name: string): Promise<string> {
  await node.createPods([name]);
  await node.untilReady([name]);
  const [address = ""] = await node.addressesOf(name);
  expect(node.inPod(address, "ping", "-c", "1", "-W", "10", NODE_ADDRESS)).toContain("1 received");
  await node.deletePods([name]);
  await node.untilGone([name]);
  return address;
}
