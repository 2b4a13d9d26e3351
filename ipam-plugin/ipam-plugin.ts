/** The verbs of the IPAM plugin (I§1), each served with an open datastore: by its own executable, or inside the main plugin. */
export { type IpamAddition, ipamAdd } from "./add.ts";
export { ipamCheck } from "./check.ts";
export { ipamDel } from "./del.ts";
export { ipamGc } from "./gc.ts";
export { ipamStatus } from "./status.ts";
