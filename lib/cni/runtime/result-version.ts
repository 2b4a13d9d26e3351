/** Results between plugins of different versions: every plugin of a chain sees the version of its list. */

import { parseJson } from "../../json/parse.ts";
import { isJsonObject, type JsonObject } from "../../json/value.ts";
import type { CniVersion } from "../protocol.ts";
import { parseResult, renderResult } from "../result.ts";

/**
 * The result in `version`; as it came when it is in that version already, so that nothing a plugin says is lost.
 * @throws TortieError `result-invalid`
 */
export function inVersion(result: JsonObject, version: CniVersion): JsonObject {
  if (result.cniVersion === version) return result;
  const converted = parseJson(renderResult(parseResult(result, version), version));
  return isJsonObject(converted) ? converted : result;
}
