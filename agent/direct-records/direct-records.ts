/**
 * Attachments that plugins made without the agent (A§11.6): `direct/<sha256 of the attachment>.json`, an endpoint record without an id.
 * The agent takes them over; until then it leaves what they name alone.
 */

import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../../lib/errors/errors.ts";
import { unlessMissing } from "../../lib/system/files.ts";
import type { Attachment, EndpointRecord } from "../endpoints/record/endpoint-record.ts";
import { decodeSettled, encodeRecord } from "../endpoints/record/record-codec.ts";
import { attachmentKey } from "../run-directory/attachment-key.ts";

/** In the place of an endpoint's number, which only the agent gives. */
export const NO_ID = 0;

const NAME = /^[0-9a-f]{64}\.json$/;

interface UnreadableRecord {
  /** Where it is kept now. */
  readonly path: string;
  readonly reason: string;
}

export interface FoundRecords {
  readonly records: readonly EndpointRecord[];
  readonly unreadable: readonly UnreadableRecord[];
}

export class DirectRecords {
  readonly #directory: string;

  /** @param directory made when the first record is written */
  constructor(directory: string) {
    this.#directory = directory;
  }

  get directory(): string {
    return this.#directory;
  }

  makeDirectory(): void {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
  }

  /** Replaces the attachment's record as a whole. @throws an error of node:fs */
  write(record: EndpointRecord): void {
    const path = this.#pathOf(record.attachment);
    // Of this process: two plugins may work on two attachments at once, and one that was killed leaves its file.
    const temporary = `${path}.${process.pid}.tmp`;
    this.makeDirectory();
    writeFileSync(temporary, encodeRecord(record), { mode: 0o600 });
    renameSync(temporary, path);
  }

  /** Succeeds if there is none. */
  remove(attachment: Attachment): void {
    unlessMissing(() => unlinkSync(this.#pathOf(attachment)));
  }

  /** @returns `undefined` when there is none @throws Error when it cannot be read */
  read(attachment: Attachment): EndpointRecord | undefined {
    const text = unlessMissing(() => readFileSync(this.#pathOf(attachment), "utf8"));
    return text === undefined ? undefined : decodeSettled(text);
  }

  has(attachment: Attachment): boolean {
    return existsSync(this.#pathOf(attachment));
  }

  /** What cannot be read is moved to `bad/`, for a person to look at. */
  list(): FoundRecords {
    const records: EndpointRecord[] = [];
    const unreadable: UnreadableRecord[] = [];
    for (const name of unlessMissing(() => readdirSync(this.#directory)) ?? []) {
      if (!NAME.test(name)) continue;
      const path = join(this.#directory, name);
      try {
        const text = unlessMissing(() => readFileSync(path, "utf8"));
        // Removed by a DEL meanwhile.
        if (text === undefined) continue;
        const record = decodeSettled(text);
        if (fileName(record.attachment) !== name) throw new Error("it is the record of another attachment");
        records.push(record);
      } catch (error) {
        unreadable.push({ path: this.#setAside(name), reason: messageOf(error) });
      }
    }
    return { records, unreadable };
  }

  #setAside(name: string): string {
    const bad = join(this.#directory, "bad");
    mkdirSync(bad, { recursive: true, mode: 0o700 });
    const target = join(bad, `${name}.${Date.now()}`);
    unlessMissing(() => renameSync(join(this.#directory, name), target));
    return target;
  }

  #pathOf(attachment: Attachment): string {
    return join(this.#directory, fileName(attachment));
  }
}

function fileName({ network, containerId, ifname }: Attachment): string {
  return `${attachmentKey({ network, containerId, interfaceName: ifname })}.json`;
}
