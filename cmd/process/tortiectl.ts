/** The process of the operator's command. */
import { tortiectl } from "../tortiectl/main.ts";

process.exit(await tortiectl(process.argv.slice(2)));
