import { join } from "node:path";
import { openLocalDatastore } from "../../../../../lib/datastore/local/local-datastore.ts";
import { describeDatastore } from "../../../../support/datastore-conformance.ts";
import { TemporaryDirectory } from "../../../../support/fixtures.ts";

describeDatastore(
  "the local store",
  async () => {
    const ends = new AsyncDisposableStack();
    const path = join(ends.use(new TemporaryDirectory()).path, "tortie.db");
    return {
      datastore: ends.use(openLocalDatastore(path)),
      other: ends.use(openLocalDatastore(path)),
      [Symbol.asyncDispose]: () => ends.disposeAsync(),
    };
  },
  { hasOwnEndpoints: true },
);
