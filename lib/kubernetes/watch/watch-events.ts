/** The body of a watch as events: one JSON object a line (Kubernetes API concepts, "Efficient detection of changes"). */
import { type Fields, isObject, section, text } from "../../json/decode.ts";

/** A block with 1024 addresses has some 200 KiB. */
const LONGEST_LINE = 64 * 1024 * 1024;

export type WatchEvent =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: Fields }
  | { readonly type: "BOOKMARK"; readonly resourceVersion: string }
  | { readonly type: "ERROR"; readonly code: number; readonly message: string };

/**
 * @param prepare the text of an event before it is parsed
 * @throws Error when the body ends in an error, or a line is no event
 */
export async function* watchEvents(body: AsyncIterable<Uint8Array>, prepare: (json: string) => string): AsyncGenerator<WatchEvent> {
  for await (const line of lines(body)) yield decodeEvent(JSON.parse(prepare(line)));
}

function decodeEvent(event: unknown): WatchEvent {
  if (!isObject(event)) throw new Error("the watch sent something that is no event");
  const type = text(event, "type");
  const object = section(event, "object");
  switch (type) {
    case "ADDED":
    case "MODIFIED":
    case "DELETED":
      return { type, object };
    case "BOOKMARK":
      return { type, resourceVersion: text(section(object, "metadata"), "resourceVersion") };
    case "ERROR":
      return { type, code: typeof object.code === "number" ? object.code : 0, message: text(object, "message") };
    default:
      throw new Error(`the watch sent an event of the type ${JSON.stringify(type)}`);
  }
}

async function* lines(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let pending = "";
  for await (const chunk of body) {
    pending += decoder.decode(chunk, { stream: true });
    let begin = 0;
    for (let end = pending.indexOf("\n"); end >= 0; end = pending.indexOf("\n", begin)) {
      if (end > begin) yield pending.slice(begin, end);
      begin = end + 1;
    }
    pending = pending.slice(begin);
    if (pending.length > LONGEST_LINE) throw new Error(`the watch sent an event larger than ${LONGEST_LINE} bytes`);
  }
}
