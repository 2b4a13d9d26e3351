export { encode, ipamStdinForDel, readIpamSection } from "./host-local.ts";
