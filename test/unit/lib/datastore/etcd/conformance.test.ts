/** Every promise of the datastore port, kept by what our driver asks of etcd; the cluster suite asks etcd itself. */
import { describeDatastore } from "../../../../support/datastore-conformance.ts";
import { MemoryEtcd } from "../../../../support/etcd/memory-etcd.ts";

describeDatastore(
  "etcd",
  async () => {
    const etcd = await MemoryEtcd.start();
    const [datastore, other] = [etcd.datastore(), etcd.datastore()];
    return {
      datastore,
      other,
      async [Symbol.asyncDispose]() {
        await datastore[Symbol.asyncDispose]();
        await other[Symbol.asyncDispose]();
        etcd[Symbol.dispose]();
      },
    };
  },
  { hasOwnEndpoints: true },
);
