/** Asks one question of the API server that the first argument describes, as JSON, and prints the answer. */
import { createApiClient } from "../../../lib/kubernetes/client/client.ts";

const config = JSON.parse(process.argv[2] ?? "");
const client = createApiClient({ ...config, reload: () => config });
process.stdout.write(await client.request({ method: "GET", path: "/a" }));
