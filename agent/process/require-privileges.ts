/** What the agent must be allowed: without it the agent could serve its API and fail every ADD, which nobody would see at its start. */
import { TortieError } from "../../lib/errors/errors.ts";
import { missingCapabilities } from "../../lib/system/privileges.ts";

/** @throws TortieError `privilege-missing` naming the user and what it lacks */
export function requirePrivileges(): void {
  const missing = missingCapabilities();
  if (missing.length === 0) return;
  const user = process.geteuid?.() ?? "unknown";
  throw new TortieError("privilege-missing", `the agent runs as user ${user} without ${missing.join(" and ")}: it could connect no pod`);
}
