/** Pods and KubeVirt's objects, as the allocator asks for them. */
import { ApiCore, kubernetesVirtualMachines } from "../../../../../lib/datastore/kubernetes/api-core.ts";
import { type Exchange, ScriptedClient } from "../../../../support/scripted-api-client.ts";

const KEY = { namespace: "vms", name: "web" };
const OWNER = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: "web", uid: "u2", controller: true };

function ask(...script: readonly Exchange[]) {
  const client = new ScriptedClient(...script);
  return { client, machines: kubernetesVirtualMachines(new ApiCore(client)) };
}

describe("an object of a virtual machine", () => {
  it.each([
    ["pods", "/api/v1/namespaces/vms/pods/web"],
    ["instances", "/apis/kubevirt.io/v1/namespaces/vms/virtualmachineinstances/web"],
    ["machines", "/apis/kubevirt.io/v1/namespaces/vms/virtualmachines/web"],
  ] as const)("is read with its owners from where it lies: %s", async (kind, path) => {
    const metadata = {
      ...KEY,
      uid: "u1",
      resourceVersion: "5",
      labels: { a: "b" },
      ownerReferences: [OWNER],
      deletionTimestamp: "2026-01-01T00:00:00Z",
    };
    const { machines } = ask([`GET ${path}`, { metadata }], [`GET ${path}`, { status: 404 }]);
    expect((await machines[kind].get(KEY))?.value).toMatchObject({ ...KEY, uid: "u1", labels: { a: "b" }, isDeleting: true });
    expect(await machines[kind].get(KEY)).toBeUndefined();
  });

  it.each([
    ["namespace", { ...KEY, namespace: "vms/../kube-system" }],
    ["name", { ...KEY, name: "web?watch=1" }],
  ])("whose %s no object can have is none, without a request", async (_, key) => {
    expect(await ask().machines.pods.get(key)).toBeUndefined();
  });
});
