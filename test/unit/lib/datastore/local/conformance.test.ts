import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openLocalDatastore } from "../../../../../lib/datastore/local/local-datastore.ts";
import { describeDatastore } from "../../../../support/datastore-conformance.ts";

describeDatastore(
  "the local store",
  async () => {
    const directory = mkdtempSync(join(tmpdir(), "tortie-store-"));
    const path = join(directory, "tortie.db");
    const datastore = openLocalDatastore(path);
    const other = openLocalDatastore(path);
    return {
      datastore,
      other,
      async [Symbol.asyncDispose]() {
        await datastore[Symbol.asyncDispose]();
        await other[Symbol.asyncDispose]();
        rmSync(directory, { recursive: true });
      },
    };
  },
  { hasOwnEndpoints: true },
);
