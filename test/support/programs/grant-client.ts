/**
 * A process that takes addresses of a node's host scope, as plugins without the agent do: `grant-client RUN_DIRECTORY NAME TIMES`.
 * It begins when its standard input ends, and prints the addresses, one a line.
 */
import { hostScopeFiles } from "../../../ipam-plugin/host-scope/files.ts";
import { openHostScope } from "../../../ipam-plugin/host-scope/open.ts";
import { formatAddress } from "../../../lib/addresses/address.ts";

const [, , runDirectory = "", name = "", times = "0"] = process.argv;
await new Response(Bun.stdin.stream()).text();
const hostScope = openHostScope(hostScopeFiles(runDirectory));
for (let index = 0; index < Number(times); index++) {
  const granted = await hostScope.grant({ owner: { kind: "name", name: `${name}-${index}` } });
  for (const { address } of granted) console.log(formatAddress(address));
}
