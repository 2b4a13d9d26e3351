/** One thing that is wrong in a file, and where. */
import type { Position } from "../../lib/json/positions.ts";

export interface FileFinding {
  readonly file: string;
  /** Absent for YAML, and where no single place is to blame. */
  readonly position: Position | undefined;
  /** `error`: an ADD fails, or the object is not used. `warning`: it works, and perhaps not as meant. */
  readonly severity: "error" | "warning";
  /** What it is about: "plugins[0].mtu", "IPPool pods". */
  readonly subject: string;
  readonly message: string;
}
