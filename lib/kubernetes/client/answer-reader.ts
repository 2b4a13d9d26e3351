/**
 * HTTP/1.1 answers from the bytes of a connection (RFC 9112): as much of it as an API server and the proxies before one use, with limits
 * on all that a hostile or broken peer could make large.
 */
import { consistsOf, isDigit } from "../../system/characters.ts";
import { ByteQueue } from "./byte-queue.ts";
import type { WireAnswer } from "./transport.ts";

/** A list of ten thousand blocks has some 30 MiB. */
const MAX_BODY = 128 * 1024 * 1024;
/** Status line and headers together; those of an API server have some 500 bytes. */
const MAX_HEAD = 64 * 1024;
/** 100 and 103 may come before the answer itself. */
const MAX_INTERIM = 16;

/** What is wrong with the bytes, for people. */
export class AnswerSyntaxError extends Error {
  override readonly name = "AnswerSyntaxError";
}

export interface ReadAnswer extends WireAnswer {
  /** The peer will not answer another request on this connection. */
  readonly isLast: boolean;
}

interface Head {
  status: number;
  contentType: string;
  retryAfter: string;
  contentLength: number | undefined;
  isChunked: boolean;
  isLast: boolean;
}

type Stage = "status-line" | "headers" | "sized-body" | "chunk-size" | "chunk" | "chunk-end" | "trailers" | "endless-body";

export class AnswerReader {
  readonly #input = new ByteQueue();
  readonly #decoder = new TextDecoder();
  #body = new ByteQueue();
  #stage: Stage = "status-line";
  #head: Head = newHead();
  /** Bytes of the head, or of the trailers, so far. */
  #headBytes = 0;
  /** Bytes of the body or the chunk that are still to come. */
  #missing = 0;
  #interim = 0;

  /** Whether some bytes of an answer came, but not all. */
  get isInside(): boolean {
    return this.#stage !== "status-line" || this.#input.length > 0;
  }

  push(bytes: Uint8Array): void {
    this.#input.push(bytes);
  }

  /**
   * @returns `undefined` while no answer is complete
   * @throws AnswerSyntaxError
   */
  next(): ReadAnswer | undefined {
    for (;;) {
      if (this.#stage === "sized-body" && this.#body.length === 0 && this.#input.length >= this.#missing) {
        return this.#finish(this.#input.take(this.#missing));
      }
      if (this.#stage === "sized-body" || this.#stage === "chunk" || this.#stage === "endless-body") {
        this.#moveBody();
        if (this.#missing > 0) return undefined;
        if (this.#stage === "sized-body") return this.#finish();
        this.#stage = "chunk-end";
        continue;
      }
      const line = this.#line();
      if (line === undefined) return undefined;
      if (this.#readLine(line)) return this.#finish();
    }
  }

  /**
   * The connection has ended: an answer without a length is complete now.
   *
   * @returns `undefined` when there is none, or not all of it
   */
  end(): ReadAnswer | undefined {
    return this.#stage === "endless-body" ? this.#finish() : undefined;
  }

  #line(): Uint8Array | undefined {
    const before = this.#input.length;
    const line = this.#input.takeLine();
    this.#headBytes += line === undefined ? 0 : before - this.#input.length;
    if (this.#headBytes > MAX_HEAD || (line === undefined && this.#headBytes + before > MAX_HEAD)) {
      throw new AnswerSyntaxError(`its head is larger than ${MAX_HEAD} bytes`);
    }
    return line;
  }

  /** @returns whether the answer is complete */
  #readLine(line: Uint8Array): boolean {
    switch (this.#stage) {
      case "status-line":
        this.#head = parseStatusLine(this.#decoder.decode(line));
        this.#stage = "headers";
        return false;
      case "headers":
        if (line.length === 0) return this.#beginBody();
        if (mayMatter(line)) readHeader(this.#decoder.decode(line), this.#head);
        return false;
      case "chunk-size":
        this.#missing = parseChunkSize(this.#decoder.decode(line));
        this.#checkSize(this.#body.length + this.#missing);
        this.#headBytes = 0;
        this.#stage = this.#missing === 0 ? "trailers" : "chunk";
        return false;
      case "chunk-end":
        if (line.length > 0) throw new AnswerSyntaxError("a chunk of its body is longer than it says");
        this.#stage = "chunk-size";
        return false;
      default:
        // Trailers say nothing we need; an empty line ends them.
        return line.length === 0;
    }
  }

  /** @returns whether there is no body */
  #beginBody(): boolean {
    const { status, contentLength, isChunked } = this.#head;
    this.#headBytes = 0;
    if (status === 101) throw new AnswerSyntaxError("it changes to another protocol, which nobody asked for");
    if (status < 200) {
      if (++this.#interim > MAX_INTERIM) throw new AnswerSyntaxError("it has no end of interim answers");
      this.#stage = "status-line";
      return false;
    }
    if (status === 204 || status === 304) return true;
    if (isChunked) {
      this.#stage = "chunk-size";
      return false;
    }
    if (contentLength === undefined) {
      this.#stage = "endless-body";
      this.#missing = Number.POSITIVE_INFINITY;
      this.#head.isLast = true;
      return false;
    }
    this.#checkSize(contentLength);
    this.#missing = contentLength;
    this.#stage = "sized-body";
    return false;
  }

  #moveBody(): void {
    const bytes = this.#input.take(this.#missing);
    this.#missing -= bytes.length;
    this.#body.push(bytes);
    this.#checkSize(this.#body.length);
  }

  #checkSize(size: number): void {
    if (size > MAX_BODY) throw new AnswerSyntaxError(`its body is larger than ${MAX_BODY} bytes`);
  }

  /** @param whole the body, where it came in one piece */
  #finish(whole?: Uint8Array): ReadAnswer {
    const { status, contentType, retryAfter, isLast } = this.#head;
    const body = this.#decoder.decode(whole ?? this.#body.take(this.#body.length));
    if (whole === undefined) this.#body = new ByteQueue();
    this.#stage = "status-line";
    this.#headBytes = 0;
    this.#missing = 0;
    this.#interim = 0;
    return { status, contentType, retryAfter, body, isLast };
  }
}

function newHead(): Head {
  return { status: 0, contentType: "", retryAfter: "", contentLength: undefined, isChunked: false, isLast: false };
}

/** "HTTP/1.1 200 OK"; the reason may be missing. */
function parseStatusLine(line: string): Head {
  const status = Number(line.slice(9, 12));
  const isHttp = line.startsWith("HTTP/1.1 ") || line.startsWith("HTTP/1.0 ");
  if (!isHttp || !Number.isInteger(status) || status < 100 || (line.length > 12 && line[12] !== " ")) {
    throw new AnswerSyntaxError(`it begins with ${JSON.stringify(line.slice(0, 40))}`);
  }
  const head = newHead();
  head.status = status;
  head.isLast = line.startsWith("HTTP/1.0");
  return head;
}

/** Whether a header may be one of those that are looked into, by its first letter: c, r or t. A line without a name is looked into too. */
function mayMatter(line: Uint8Array): boolean {
  const letter = (line[0] ?? 0) | 0x20;
  return letter === 0x63 || letter === 0x72 || letter === 0x74 || line.indexOf(0x3a) <= 0;
}

function readHeader(line: string, head: Head): void {
  const colon = line.indexOf(":");
  if (colon <= 0) throw new AnswerSyntaxError(`it has a header without a name or value: ${JSON.stringify(line.slice(0, 40))}`);
  const value = line.slice(colon + 1).trim();
  switch (line.slice(0, colon).toLowerCase()) {
    case "content-length": {
      const length = parseLength(value);
      // Two lengths are how one answer is passed off as two (RFC 9112, 6.3).
      if (head.contentLength !== undefined && head.contentLength !== length) throw new AnswerSyntaxError("it has two lengths");
      head.contentLength = length;
      return;
    }
    case "transfer-encoding":
      if (value.toLowerCase() !== "chunked") throw new AnswerSyntaxError(`its body has the unknown encoding ${JSON.stringify(value)}`);
      head.isChunked = true;
      return;
    case "content-encoding":
      if (value.toLowerCase() !== "identity")
        throw new AnswerSyntaxError(`its body has the encoding ${JSON.stringify(value)}, which nobody asked for`);
      return;
    case "content-type":
      head.contentType = value;
      return;
    case "retry-after":
      head.retryAfter = value;
      return;
    case "connection":
      if (value.toLowerCase().includes("close")) head.isLast = true;
  }
}

function parseLength(text: string): number {
  const length = Number(text);
  if (text === "" || text.length > 15 || !consistsOf(text, isDigit)) {
    throw new AnswerSyntaxError(`its length is ${JSON.stringify(text.slice(0, 40))}`);
  }
  return length;
}

/** Hexadecimal; what follows a ";" is an extension that nobody uses. */
function parseChunkSize(line: string): number {
  const semicolon = line.indexOf(";");
  const text = (semicolon < 0 ? line : line.slice(0, semicolon)).trim();
  const size = Number(`0x${text}`);
  if (text === "" || text.length > 8 || !Number.isInteger(size))
    throw new AnswerSyntaxError(`a chunk of its body has the length ${JSON.stringify(text.slice(0, 40))}`);
  return size;
}
