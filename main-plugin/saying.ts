export { withContext as saying } from "./with-context.ts";
