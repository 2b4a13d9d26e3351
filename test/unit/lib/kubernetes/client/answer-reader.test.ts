import { AnswerReader } from "../../../../../lib/kubernetes/client/answer-reader.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

/** All answers in `text`, given to the reader in pieces of so many bytes. */
function read(text: string, size = text.length) {
  const reader = new AnswerReader();
  const answers = [];
  const all = bytes(text);
  for (let at = 0; at < all.length; at += size) {
    reader.push(all.subarray(at, at + size));
    for (let answer = reader.next(); answer !== undefined; answer = reader.next()) answers.push(answer);
  }
  return { answers, reader };
}

describe("AnswerReader", () => {
  const sized = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"a":"ü"}'.replace("9", "10");
  const chunked =
    "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nRetry-After: 7\r\n\r\n4\r\nabcd\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n";

  it.each([1, 2, 3, 7, 50, 1000])("reads answers that follow each other, arriving in pieces of %i bytes", (size) => {
    const { answers, reader } = read(sized + chunked + sized, size);

    expect(answers.map(({ status, body }) => [status, body])).toEqual([
      [200, '{"a":"ü"}'],
      [404, "abcd0123456789"],
      [200, '{"a":"ü"}'],
    ]);
    expect(answers[0]).toMatchObject({ contentType: "application/json", retryAfter: "", isLast: false });
    expect(answers[1]).toMatchObject({ contentType: "", retryAfter: "7" });
    expect(reader.isInside).toBe(false);
  });

  it("passes over interim answers", () => {
    expect(read(`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n${sized}`).answers).toHaveLength(1);
  });

  it("knows that 204 and 304 have no body", () => {
    const { answers } = read(`HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n${sized}`);

    expect(answers.map(({ status }) => status)).toEqual([204, 304, 200]);
  });

  it("takes what comes until the end where no length is given, and says that nothing can follow", () => {
    const { answers, reader } = read("HTTP/1.1 200 OK\r\n\r\nall of it");

    expect(answers).toEqual([]);
    expect(reader.end()).toMatchObject({ body: "all of it", isLast: true });
  });

  it.each([
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
    "HTTP/1.1 2",
  ])("does not take an answer that was cut off for a whole one: %j", (text) => {
    const { answers, reader } = read(text);

    expect(answers).toEqual([]);
    expect(reader.isInside).toBe(true);
    expect(reader.end()).toBeUndefined();
  });

  it.each(["Connection: close", "connection: Keep-Alive, Close"])("hears %s", (header) => {
    expect(read(`HTTP/1.1 200 OK\r\n${header}\r\nContent-Length: 0\r\n\r\n`).answers).toEqual([expect.objectContaining({ isLast: true })]);
  });

  it.each([
    ["another protocol", "SSH-2.0-OpenSSH_9.2\r\n"],
    ["a status that is none", "HTTP/1.1 2x0 OK\r\n"],
    ["a newer HTTP", "HTTP/2.0 200 OK\r\n"],
    ["a change of protocol", "HTTP/1.1 101 Switching Protocols\r\n\r\n"],
    ["interim answers without end", "HTTP/1.1 100 Continue\r\n\r\n".repeat(40)],
    ["a header without a name", "HTTP/1.1 200 OK\r\n: x\r\n"],
    ["two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"],
    ["a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"],
    ["a length that is no number", "HTTP/1.1 200 OK\r\nContent-Length: 1e3\r\n\r\n"],
    ["a gigantic length", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"],
    ["a length beyond all numbers", `HTTP/1.1 200 OK\r\nContent-Length: ${"9".repeat(40)}\r\n\r\n`],
    ["a gigantic chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n"],
    ["a chunk without a length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n"],
    ["a chunk of a negative length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n"],
    ["a chunk longer than it says", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n"],
    ["an encoding nobody knows", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"],
    ["a compressed body", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"],
    ["a line without end", "HTTP/1.1 200 ".padEnd(70_000, "x")],
    ["headers without end", `HTTP/1.1 200 OK\r\n${"A: b\r\n".repeat(20_000)}`],
    ["a chunk line without end", `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;${"x".repeat(70_000)}`],
    ["trailers without end", `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n${"A: b\r\n".repeat(20_000)}`],
  ])("refuses %s", (_what, text) => {
    expect(() => read(text)).toThrow(expect.objectContaining({ name: "AnswerSyntaxError" }));
  });

  it("reads a body of many small chunks in a time that grows with its size only", () => {
    const body = "5\r\nabcde\r\n".repeat(100_000);

    const { answers } = read(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body}0\r\n\r\n`, 1400);

    expect(answers[0]?.body).toHaveLength(500_000);
  });
});
