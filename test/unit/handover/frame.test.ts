/** The bytes on the call socket (A§11.3), and what the agent makes of bytes that no caller of ours sends. */

import { MAX_BODY_BYTES } from "../../../handover/call.ts";
import { CALL_HEADER_BYTES, type CallFrame, decodeAnswer, encodeCall } from "../../../handover/call-frame.ts";
import { callLength, decodeCall, encodeAnswer } from "../../../handover/decode-frame.ts";

const CALL: CallFrame = {
  flags: 5,
  plugin: "1.2",
  deadlineMs: 90_000,
  sandbox: { dev: 4n, ino: 0xf000_0000_0000_0001n, fd: 3 },
  env: { CNI_COMMAND: "ADD", A: "" },
  stdin: Buffer.from("{\xff}", "latin1"),
};
const HEADER = "54434e49 0100 0000 05000000 03000000 13000000 03000000 905f0100 03000000 0400000000000000 01000000000000f0".replaceAll(
  " ",
  "",
);

function encoded(change: Partial<CallFrame> = {}): Buffer {
  const bytes = encodeCall({ ...CALL, ...change });
  if (bytes === undefined) throw new Error("too long");
  return Buffer.from(bytes);
}

/** The whole call with another number in its header, and without what stood behind it where `rest` says something else. */
function changed(at: number, number: number, rest?: Buffer): Buffer {
  const bytes = Buffer.concat([encoded().subarray(0, CALL_HEADER_BYTES), rest ?? encoded().subarray(CALL_HEADER_BYTES)]);
  bytes.writeInt32LE(number, at);
  return bytes;
}

/** A call whose variables are these bytes. */
function withVariables(text: string | Buffer): Buffer {
  const variables = Buffer.from(text);
  return changed(16, variables.length, Buffer.concat([Buffer.from("1.2"), variables, CALL.stdin]));
}

describe("A call", () => {
  it("has the bytes of the contract, and is read as it was written", () => {
    const bytes = encoded();
    expect(bytes.subarray(0, CALL_HEADER_BYTES).toString("hex")).toBe(HEADER);
    expect(bytes.subarray(CALL_HEADER_BYTES).toString("latin1")).toBe("1.2CNI_COMMAND=ADD\0A=\0{\xff}");
    expect(decodeCall(bytes)).toEqual({ ...CALL, stdin: expect.anything() });
    expect(Buffer.from(decodeCall(bytes).stdin).equals(CALL.stdin)).toBe(true);
  });

  it("may have no sandbox, one that is not held open, no variables and no input", () => {
    const { sandbox: _, ...bare } = { ...CALL, env: {}, stdin: Buffer.alloc(0), plugin: "" };
    const bytes = encodeCall(bare);
    expect(bytes?.length).toBe(CALL_HEADER_BYTES);
    expect(decodeCall(Buffer.from(bytes ?? []))).toEqual(bare);
    expect(decodeCall(encoded({ sandbox: { dev: 0n, ino: 1n } })).sandbox).toEqual({ dev: 0n, ino: 1n });
  });

  it("is known in its length from its header on, whatever has come of it", () => {
    const bytes = encoded();
    for (let length = 0; length <= bytes.length; length++) {
      expect(callLength(bytes.subarray(0, length))).toBe(length < CALL_HEADER_BYTES ? undefined : bytes.length);
    }
  });

  it("is as long as the agent reads, and no longer", () => {
    const longest = MAX_BODY_BYTES - CALL.plugin.length - "CNI_COMMAND=ADD.A=.".length;
    expect(callLength(encoded({ stdin: Buffer.alloc(longest) }))).toBe(CALL_HEADER_BYTES + MAX_BODY_BYTES);
    expect(encodeCall({ ...CALL, stdin: Buffer.alloc(longest + 1) })).toBeUndefined();
    const header = changed(20, longest + 1).subarray(0, CALL_HEADER_BYTES);
    expect(() => callLength(header)).toThrow(expect.objectContaining({ word: "request-too-large" }));
  });

  it.each([12, 16, 20])("of 4 GiB is refused by its header alone (length at %i)", (at) => {
    const header = changed(at, -1).subarray(0, CALL_HEADER_BYTES);
    expect(() => callLength(header)).toThrow(expect.objectContaining({ word: "request-too-large" }));
  });

  it("of another version is refused by its first six bytes", () => {
    const bytes = encoded();
    bytes.writeUInt16LE(2, 4);
    expect(() => callLength(bytes.subarray(0, 6))).toThrow(expect.objectContaining({ word: "protocol-unsupported" }));
  });

  it.each<[string, Buffer]>([
    ["another magic", Buffer.from("POST /v1/cni/add")],
    ["a cut header", encoded().subarray(0, CALL_HEADER_BYTES - 1)],
    ["a cut input", encoded().subarray(0, -1)],
    ["a byte too many", Buffer.concat([encoded(), Buffer.of(0)])],
    ["a descriptor without a sandbox", Buffer.concat([encoded().subarray(0, 32), Buffer.alloc(16), encoded().subarray(48)])],
    ["a descriptor below -1", changed(28, -2)],
    ["a variable without an end", withVariables("A=b")],
    ["a variable without a name", withVariables("=b\0")],
    ["a variable without a value", withVariables("A\0")],
    ["an empty variable", withVariables("A=b\0\0")],
    ["a variable that comes twice", withVariables("A=b\0A=c\0")],
    ["a variable that is no UTF-8", withVariables(Buffer.of(0x41, 0x3d, 0xff, 0))],
    ["a version that is no UTF-8", changed(12, 3, Buffer.concat([Buffer.of(0xff, 0xfe, 0xfd), encoded().subarray(51)]))],
  ])("with %s is not valid", (_, bytes) => {
    expect(() => decodeCall(bytes)).toThrow(expect.objectContaining({ word: "call-invalid" }));
  });

  it("with a variable of any name is no more than a variable", () => {
    const { env } = decodeCall(withVariables("__proto__=x\0constructor=y\0B==\0"));
    expect(Object.entries(env)).toEqual([
      ["__proto__", "x"],
      ["constructor", "y"],
      ["B", "="],
    ]);
  });
});

describe("An answer", () => {
  const bytes = Buffer.from(encodeAnswer({ status: 421, body: "é", endpoint: 7, warnings: 2 }));

  it("has the bytes of the contract, and is read when it is whole", () => {
    expect(bytes.toString("hex")).toBe("54434e49 0100 a501 02000000 07000000 02000000 c3a9".replaceAll(" ", ""));
    for (let length = 0; length < bytes.length; length++) expect(decodeAnswer(bytes.subarray(0, length))).toBeUndefined();
    expect(decodeAnswer(bytes)).toEqual({ status: 421, body: expect.anything() });
    expect(decodeAnswer(Buffer.concat([bytes, Buffer.from("more")]))?.valueOf()).toMatchObject({ body: Buffer.from("é") });
  });

  it("of another version says that the caller serves the call itself; of another form is foreign", () => {
    const newer = Buffer.from(bytes);
    newer.writeUInt16LE(2, 4);
    expect(decodeAnswer(newer.subarray(0, 8))).toMatchObject({ status: 421 });
    expect(decodeAnswer(Buffer.from("HTTP"))).toBe("foreign");
  });
});
