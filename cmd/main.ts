/**
 * Picks the role from the base name this file was called by (C§0.1, I§1.1). Hard links and symlinks both work, because it is the
 * caller's argv[0] that counts and not the resolved file. Each role is a program of its own that ends the process, and is bundled apart
 * (scripts/build): they share no code at run time, and this file imports none of it.
 */
const role = process.argv0.slice(process.argv0.lastIndexOf("/") + 1);

switch (role) {
  case "tortie":
  case "calico":
    await import("./process/tortie.ts");
    break;
  case "tortie-ipam":
  case "calico-ipam":
    await import("./process/tortie-ipam.ts");
    break;
  case "tortiectl":
    await import("./process/tortiectl.ts");
    break;
  default:
    process.stderr.write(`${role}: this executable answers to the names tortie, tortie-ipam, tortiectl, calico and calico-ipam\n`);
    process.exit(2);
}
