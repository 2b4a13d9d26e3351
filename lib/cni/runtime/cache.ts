/**
 * Keeps results between ADD and the later operations, one file an attachment, in libcni's own format ("cniCacheV1",
 * libcni/api.go), so that what a runtime attached can be checked and removed by hand, and the other way round.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { messageOf, TortieError } from "../../errors/errors.ts";
import { parseJson } from "../../json/parse.ts";
import { isJsonObject, type JsonObject, type JsonValue, stringifyJson } from "../../json/value.ts";
import { ifReadable } from "../../system/files.ts";
import { writeWhole } from "../../system/write-whole.ts";
import type { Conflist } from "./conflist.ts";
import type { Attachment } from "./plugin-call.ts";

const KIND = "cniCacheV1";

export interface CachedAttachment {
  readonly network: string;
  readonly attachment: Attachment;
  /** As the last plugin of the chain printed it. */
  readonly result: JsonObject;
}

export class ResultCache {
  readonly #folder: string;

  /** @param directory libcni's cache directory; results are in its folder "results" */
  constructor(directory: string) {
    this.#folder = join(directory, "results");
  }

  /**
   * @returns `undefined` when nothing is kept
   * @throws TortieError `cache-damaged`
   */
  get(network: string, attachment: Attachment): CachedAttachment | undefined {
    return this.#read(this.fileOf(network, attachment));
  }

  /** Lists every readable attachment of one network; other programs' files in the folder are passed over. */
  list(network: string): readonly CachedAttachment[] {
    const names = ifReadable(() => readdirSync(this.#folder)) ?? []; // none: nothing was ever kept
    const prefixed = names.filter((name) => name.startsWith(`${network}-`) && !name.endsWith(".tmp")).sort();
    return prefixed.flatMap((name) => {
      const cached = this.#readOrSkip(join(this.#folder, name));
      return cached?.network === network ? [cached] : [];
    });
  }

  /** @throws TortieError `cache-unwritable` */
  put(list: Conflist, attachment: Attachment, result: JsonObject): void {
    const file = this.fileOf(list.name, attachment);
    const record: JsonObject = {
      kind: KIND,
      containerId: attachment.containerId,
      config: Buffer.from(list.text).toString("base64"),
      ifName: attachment.interfaceName,
      networkName: list.name,
      netns: attachment.netns,
      ...(attachment.args === undefined || attachment.args === "" ? {} : { cniArgs: attachment.args.split(";").map(splitPair) }),
      ...(attachment.capabilityArgs === undefined ? {} : { capabilityArgs: attachment.capabilityArgs }),
      result,
    };
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      writeWhole(file, stringifyJson(record), 0o600);
    } catch (error) {
      throw new TortieError("cache-unwritable", `the result cannot be kept in ${file}: ${messageOf(error)}`, { cause: error });
    }
  }

  delete(network: string, attachment: Attachment): void {
    rmSync(this.fileOf(network, attachment), { force: true });
  }

  /** Names the file of one attachment. */
  fileOf(network: string, attachment: Attachment): string {
    return join(this.#folder, `${network}-${attachment.containerId}-${attachment.interfaceName}`);
  }

  #readOrSkip(file: string): CachedAttachment | undefined {
    return ifReadable(() => this.#read(file));
  }

  #read(file: string): CachedAttachment | undefined {
    let text: string;
    try {
      text = readFileSync(file, "utf8");
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
      throw new TortieError("cache-damaged", `${file} cannot be read: ${messageOf(error)}`, { cause: error });
    }
    return decode(file, text);
  }
}

function decode(file: string, text: string): CachedAttachment {
  const damaged = (problem: string): never => {
    throw new TortieError("cache-damaged", `${file} is no cached attachment: ${problem}`);
  };
  let record: JsonValue;
  try {
    record = parseJson(text);
  } catch (error) {
    return damaged(messageOf(error));
  }
  if (!isJsonObject(record) || record.kind !== KIND) return damaged(`kind "${KIND}" is wanted`);
  const { containerId, ifName, networkName, netns = "", cniArgs, capabilityArgs, result } = record;
  if (typeof containerId !== "string" || typeof ifName !== "string" || typeof networkName !== "string" || typeof netns !== "string") {
    return damaged("containerId, ifName, networkName or netns is not text");
  }
  if (!isJsonObject(result)) return damaged("result is missing");
  const attachment = {
    containerId,
    netns,
    interfaceName: ifName,
    args: Array.isArray(cniArgs) ? cniArgs.map((pair: JsonValue) => (Array.isArray(pair) ? pair.join("=") : "")).join(";") : undefined,
    capabilityArgs: isJsonObject(capabilityArgs) ? capabilityArgs : undefined,
  };
  return { network: networkName, attachment, result };
}

/** Splits "KEY=VALUE" → ["KEY", "VALUE"]; a value may hold "=" itself. */
function splitPair(pair: string): readonly string[] {
  const equals = pair.indexOf("=");
  return [pair.slice(0, equals), pair.slice(equals + 1)];
}
