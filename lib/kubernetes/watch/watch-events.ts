/** The body of a watch as events: one JSON object a line (Kubernetes API concepts, "Efficient detection of changes"). */
import { type Fields, isObject, section, text } from "../../json/decode.ts";
import { lines } from "./lines.ts";

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
