/**
 * Picks the role from the base name this file was called by (C§0.1, I§1.1). Hard links and symlinks both work, because it is the
 * caller's argv[0] that counts and not the resolved file; no code of another role is loaded.
 */
import { exitNow } from "../lib/system/exit.ts";
import { baseName, writeAll } from "../lib/system/files.ts";

const role = baseName(process.argv0);
const argv = process.argv.slice(2);

async function run(): Promise<number> {
  switch (role) {
    case "tortie-ipam":
    case "calico-ipam":
      return (await import("./tortie-ipam/main.ts")).tortieIpam(argv, process.env);
    case "tortiectl":
      return (await import("./tortiectl/main.ts")).tortiectl(argv);
    case "tortie":
    case "calico":
      return (await import("./tortie/main.ts")).tortie(argv, process.env);
    default:
      writeAll(
        2,
        new TextEncoder().encode(`${role}: this executable answers to the names tortie, tortie-ipam, tortiectl, calico and calico-ipam\n`),
      );
      return 2;
  }
}

const status = await run();
if (role === "tortiectl") process.exit(status);
exitNow(status);
