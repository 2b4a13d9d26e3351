export { findIpam, type IpamPlugin } from "./ipam-source.ts";
