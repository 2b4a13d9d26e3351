import { parseTraceparent } from "../../../../agent/observe/tracing.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";

describe("The header traceparent", () => {
  it("names trace, span and flags", () => {
    expect(parseTraceparent(`00-${TRACE}-${SPAN}-01`)).toEqual({ traceId: TRACE, spanId: SPAN, flags: 1 });
  });

  it("may be of a later version, which says more", () => {
    expect(parseTraceparent(`01-${TRACE}-${SPAN}-00-more`)).toEqual({ traceId: TRACE, spanId: SPAN, flags: 0 });
  });

  it.each<readonly [unknown, string]>([
    ["", "empty"],
    [`00-${TRACE}-${SPAN}`, "without flags"],
    [`00-${TRACE}-${SPAN}-01-more`, "version 00 says no more"],
    [`ff-${TRACE}-${SPAN}-01`, "no version"],
    [`00-${TRACE.toUpperCase()}-${SPAN}-01`, "upper case"],
    [`00-${"0".repeat(32)}-${SPAN}-01`, "no trace"],
    [`00-${TRACE}-${"0".repeat(16)}-01`, "no span"],
    [`00-${TRACE}-${SPAN}-01\n`, "a line end"],
    [1, "a number"],
    [undefined, "absent"],
  ])("%j is none (%s)", (text) => {
    expect(parseTraceparent(text)).toBeUndefined();
  });
});
