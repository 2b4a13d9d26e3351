/** The lines of a watch, however its bytes come. */
import { lines } from "../../../../../lib/kubernetes/watch/feed.ts";

async function linesOf(...chunks: readonly string[]): Promise<readonly string[]> {
  return await Array.fromAsync(lines(new Blob([...chunks]).stream()));
}

describe("the lines of a watch", () => {
  it("are those that have an end, without empty ones", async () => {
    expect(await linesOf('\n{"a":1}\n\n\n{"b":2}\n{"c"')).toEqual(['{"a":1}', '{"b":2}']);
  });
});
