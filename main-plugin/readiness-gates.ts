export { assertReadinessGates } from "./gates.ts";
