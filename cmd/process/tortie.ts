/** The process of the main plugin: it ends as soon as the call is served. */
import { exitNow } from "../../lib/system/exit.ts";
import { tortie } from "../tortie.ts";

exitNow(await tortie(process.argv.slice(2), process.env));
