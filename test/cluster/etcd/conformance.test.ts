/** Every promise of the datastore port, kept on a real etcd. */
import { bothOf, describeDatastore } from "../../support/datastore-conformance.ts";
import { startEtcd } from "../../support/etcd/etcd.ts";
import { shared } from "../../support/fixtures.ts";
import { openDatastoreAt } from "./open-datastore.ts";

const etcd = shared(startEtcd);

const open = async () => {
  await etcd.clear();
  const datastore = openDatastoreAt(etcd.endpoints);
  const other = openDatastoreAt(etcd.endpoints);
  return bothOf(datastore, other);
};
describeDatastore("etcd", open, { hasOwnEndpoints: true });
