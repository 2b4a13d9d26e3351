/** Which versions of the CNI specification a plugin's executable says it knows. */
import { messageOf } from "../../errors/errors.ts";
import { isText, listOf, parseObject } from "../../json/decode.ts";
import { runDelegate } from "../delegate.ts";

/** A plugin has to answer at once: VERSION does nothing. */
const LONGEST_ANSWER_MS = 30_000;

const isTexts = listOf(isText);

/**
 * VERSION of one executable.
 * @param cniVersion the version that the answer shall have
 * @returns the versions, or why they are unknown
 */
export async function supportedVersions(executable: string, cniVersion: string): Promise<readonly string[] | string> {
  try {
    const stdin = Buffer.from(JSON.stringify({ cniVersion }));
    const stdout = await runDelegate(executable, { command: "VERSION", stdin, env: {}, timeoutMs: LONGEST_ANSWER_MS });
    const answer = parseObject(new TextDecoder().decode(stdout)).supportedVersions;
    return isTexts(answer) ? answer : "its answer has no supportedVersions";
  } catch (error) {
    return messageOf(error);
  }
}
