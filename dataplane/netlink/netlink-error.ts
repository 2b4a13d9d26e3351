/** What a conversation with the kernel fails with. */
import { errnoName, errnoText } from "../../lib/system/errno.ts";

/** The kernel refused a request. */
export class NetlinkError extends Error {
  override readonly name = "NetlinkError";
  readonly errno: number;
  /** What the kernel says about it in words; often empty. */
  readonly detail: string;

  constructor(errno: number, detail = "") {
    super(`${errnoText(errno)} (${errnoName(errno)})${detail === "" ? "" : `: ${detail}`}`);
    this.errno = errno;
    this.detail = detail;
  }
}

/** A list has more entries than its reader wants to spend time on. */
export class DumpTooLargeError extends Error {
  override readonly name = "DumpTooLargeError";

  constructor(most: number) {
    super(`the list has more than ${most} entries, or changed while they were read`);
  }
}
