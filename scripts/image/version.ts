/** Reads the version in package.json. */
import { readFileSync } from "node:fs";
import { field, isText, parseObject } from "../../lib/json/decode.ts";

export const VERSION_OF_PACKAGE = field(parseObject(readFileSync("package.json", "utf8")), "version", isText);
