/** Puts the parts of a bug report into one archive: each redacted and bounded, one that cannot be read replaced by why. */
import { messageOf } from "../../lib/errors/errors.ts";
import type { Read } from "./reading.ts";
import type { Redaction } from "./redact.ts";

/** One file of the archive. */
export interface Part {
  /** Its path in the archive. */
  readonly path: string;
  /** Text as it is, or a value that is written as JSON. */
  readonly read: () => Promise<Read | { readonly json: unknown }> | Read | { readonly json: unknown };
}

export interface PartSummary {
  readonly path: string;
  readonly bytes: number;
  /** There was more than the bounds allow. */
  readonly isCut: boolean;
  /** Why it could not be read. */
  readonly missing?: string;
}

export interface Bundle {
  readonly files: Readonly<Record<string, string>>;
  readonly parts: readonly PartSummary[];
}

export interface BundleBounds {
  /** Of one part. */
  readonly partBytes: number;
  /** Of all of them. */
  readonly totalBytes: number;
}

/** Reads every part, in order; what comes after the bound of the whole is left out, and said so. */
export async function makeBundle(parts: readonly Part[], redaction: Redaction, bounds: BundleBounds): Promise<Bundle> {
  const files: Record<string, string> = {};
  const summaries: PartSummary[] = [];
  let total = 0;
  for (const { path, read } of parts) {
    const most = Math.min(bounds.partBytes, bounds.totalBytes - total);
    if (most <= 0) {
      summaries.push({ path, bytes: 0, isCut: true, missing: "the archive is full" });
      continue;
    }
    try {
      const found = await read();
      const whole = "json" in found ? redaction.json(found.json) : redaction.text(found.text);
      const text = firstOf(whole, most);
      const bytes = Buffer.byteLength(text);
      total += bytes;
      files[path] = text;
      summaries.push({ path, bytes, isCut: text !== whole || (!("json" in found) && found.isCut) });
    } catch (error) {
      summaries.push({ path, bytes: 0, isCut: false, missing: redaction.text(messageOf(error)).slice(0, 500) });
    }
  }
  return { files, parts: summaries };
}

function firstOf(text: string, bytes: number): string {
  const buffer = Buffer.from(text);
  return buffer.length <= bytes
    ? text
    : buffer
        .subarray(0, bytes)
        .toString("utf8")
        .replace(/\uFFFD$/, "");
}

/** Bun's own archives: no dependency, and no program that a host may lack. @param folder is the one name at the archive's top */
export function archiveOf({ files }: Bundle, folder: string): Promise<Uint8Array> {
  const named = Object.fromEntries(Object.entries(files).map(([path, text]) => [`${folder}/${path}`, text]));
  return new Bun.Archive(named, { compress: "gzip" }).bytes();
}
