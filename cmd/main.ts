/**
 * Picks the role from the base name this file was called by (C§0.1, I§1.1). Hard links and symlinks both work, because it is the
 * caller's argv[0] that counts and not the resolved file; no code of another role is loaded.
 */
import { basename } from "node:path";

const role = basename(process.argv0);
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
      process.stderr.write(`${role}: this executable answers to the names tortie, tortie-ipam, tortiectl, calico and calico-ipam\n`);
      return 2;
  }
}

process.exit(await run());
