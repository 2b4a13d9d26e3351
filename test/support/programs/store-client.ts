/**
 * A process of its own on a local store: `store-client PATH create|count|number N`.
 * create: N handles of its own. count: adds 1 to the shared handle "counter" N times. number: creates 0, 1, 2 … up
 * to N (0: for ever), prints each number once it is stored, and then waits to be killed. Otherwise prints "ok" at the end, or the error's text with exit status 1.
 */
import { writeSync } from "node:fs";
import { isDatastoreFailure } from "../../../lib/datastore/errors.ts";
import { openLocalDatastore } from "../../../lib/datastore/local/local-datastore.ts";

const BLOCK = "10.40.0.0/26";
const [path = "", mode = "", times = "0"] = process.argv.slice(2);

try {
  await work();
  writeSync(1, "ok\n");
} catch (error) {
  writeSync(1, `${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}

async function work(): Promise<void> {
  await using store = openLocalDatastore(path);
  if (mode === "number") {
    for (let number = 0; times === "0" || number < Number(times); number++) {
      await store.handles.create(numbered(number), { id: numbered(number), blocks: { [BLOCK]: number + 1 } });
      writeSync(1, `${number}\n`);
    }
    await Bun.sleep(60_000);
  }
  for (let done = 0; done < Number(times); ) {
    if (mode === "create") {
      const id = `${process.pid}.${done}`;
      await store.handles.create(id, { id, blocks: { [BLOCK]: 1 } });
      done += 1;
    } else if (await countOne(store)) done += 1;
  }
}

async function countOne(store: ReturnType<typeof openLocalDatastore>): Promise<boolean> {
  const read = await store.handles.get("counter");
  try {
    if (read === undefined) await store.handles.create("counter", { id: "counter", blocks: { [BLOCK]: 1 } });
    else await store.handles.update("counter", { id: "counter", blocks: { [BLOCK]: (read.value.blocks[BLOCK] ?? 0) + 1 } }, read.revision);
    return true;
  } catch (error) {
    if (isDatastoreFailure(error, "conflict", "already-exists")) return false;
    throw error;
  }
}

/** Numbers that sort as text. */
function numbered(number: number): string {
  return String(number).padStart(8, "0");
}
