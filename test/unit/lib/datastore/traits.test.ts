/** Where virtual machines are looked for: wherever there is an API server, and nowhere else. */
import { etcdDatastore } from "../../../../lib/datastore/etcd/etcd-datastore.ts";
import type { EtcdSettings } from "../../../../lib/datastore/etcd/settings.ts";
import { kubernetesDatastore } from "../../../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import { ScriptedClient } from "../../../support/scripted-api-client.ts";

const POD = { namespace: "vms", name: "virt-launcher-a" };
const FOUND = { apiVersion: "v1", kind: "Pod", metadata: { ...POD, uid: "u1", resourceVersion: "7" } };
const api = () => new ScriptedClient(["GET /api/v1/namespaces/vms/pods/virt-launcher-a", FOUND]);
const ETCD: EtcdSettings = {
  members: { servers: [] },
  trust: { certificateAuthority: undefined, serverName: undefined, skipVerify: false },
  certificate: undefined,
  user: undefined,
  reload: (): EtcdSettings => ETCD,
};

it.each([
  ["Kubernetes", () => kubernetesDatastore(api()), true],
  ["etcd with an API server beside it", () => etcdDatastore(ETCD, { openKubernetes: api }), true],
  ["etcd alone", () => etcdDatastore(ETCD), false],
])("%s has virtual machines or none, as its trait says", async (_, open, hasThem) => {
  await using datastore = open();
  expect(datastore.traits.hasVirtualMachines).toBe(hasThem);
  expect((await datastore.virtualMachines.pods.get(POD)) !== undefined).toBe(hasThem);
});
