/** Every promise of the datastore port, kept by what our driver asks of etcd; the cluster suite asks etcd itself. */
import { describeDatastore } from "../../../../support/datastore-conformance.ts";
import { MemoryEtcd } from "../../../../support/etcd/memory-etcd.ts";

describeDatastore(
  "etcd",
  async () => {
    const ends = new AsyncDisposableStack();
    const etcd = ends.use(new MemoryEtcd());
    return {
      datastore: ends.use(etcd.datastore()),
      other: ends.use(etcd.datastore()),
      [Symbol.asyncDispose]: () => ends.disposeAsync(),
    };
  },
  { hasOwnEndpoints: true },
);
