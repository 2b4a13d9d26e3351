/** Every promise of the datastore port, kept on a real etcd. */
import { describeDatastore } from "../../support/datastore-conformance.ts";
import { startEtcd, type TestEtcd } from "../../support/etcd/etcd.ts";
import { openDatastoreAt } from "./open-datastore.ts";

let etcd: TestEtcd;
beforeAll(async () => {
  etcd = await startEtcd();
}, 120_000);
afterAll(() => etcd[Symbol.asyncDispose]());

const open = async () => {
  await etcd.clear();
  const datastore = openDatastoreAt(etcd.endpoints);
  const other = openDatastoreAt(etcd.endpoints);
  return {
    datastore,
    other,
    async [Symbol.asyncDispose]() {
      await datastore[Symbol.asyncDispose]();
      await other[Symbol.asyncDispose]();
    },
  };
};
describeDatastore("etcd", open, { hasOwnEndpoints: true });
