/** The process of the IPAM plugin: it ends as soon as the call is served. */
import { exitNow } from "../../lib/system/exit.ts";
import { tortieIpam } from "../tortie-ipam.ts";

exitNow(await tortieIpam(process.argv.slice(2), process.env));
