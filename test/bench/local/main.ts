/**
 * `npm run bench`: every bar of the local datastore in one run. Whole processes beside the smallest reference plugins, `ptp` with
 * `host-local`; calls of the contenders alternate, and only ratios mean anything. Argument: the compiled `empty-program.ts`.
 */
import { reportBars } from "../bars.ts";
import { benchAgent } from "./agent.ts";
import { benchDirect, benchStart } from "./direct.ts";
import { benchForwarder } from "./forwarder.ts";
import { setUpStage } from "./stage.ts";

await using stage = await setUpStage();
reportBars("the local datastore", [
  ...(await benchAgent(stage)),
  ...(await benchForwarder(stage)),
  ...(await benchDirect(stage)),
  await benchStart(process.argv[2] ?? ""),
]);
