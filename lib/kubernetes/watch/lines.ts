/** The body of a watch as lines, of which each is one JSON document. */

/** A block with 1024 addresses has some 200 KiB. */
const LONGEST_LINE = 64 * 1024 * 1024;

/** Leaves out empty lines, and a last one that has no end. @throws Error when the body ends in an error, or a line is too long */
export async function* lines(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
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
