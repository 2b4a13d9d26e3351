/**
 * Sees to the code signature of a program for macOS: `bash scripts/bun scripts/client/signature.ts FILE`. Bun signs what it compiles for
 * arm64 ad hoc, which a Mac demands of arm64 code, and leaves that of its own executable in what it compiles for x64, where it is wrong
 * (oven-sh/bun#39837): a wrong signature is worse than none, which x64 code does not need. So the first is checked, page by page, and
 * the second removed, as `codesign --remove-signature` does it. Nobody has run the result on a Mac here.
 */
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

// <mach-o/loader.h>, <kern/cs_blobs.h>
const MH_MAGIC_64 = 0xfeedfacf;
const CPU_TYPE_ARM64 = 0x0100000c;
const HEADER_BYTES = 32;
const LC_SEGMENT_64 = 0x19;
const LC_CODE_SIGNATURE = 0x1d;
const CS_MAGIC_CODEDIRECTORY = 0xfade0c02;
const CS_ADHOC = 0x2;
const SHA256 = 2;

interface LoadCommand {
  readonly at: number;
  readonly kind: number;
  readonly size: number;
}

/** @throws Error for what is no 64-bit Mach-O program */
function commandsOf(file: Buffer): readonly LoadCommand[] {
  if (file.length < HEADER_BYTES || file.readUInt32LE(0) !== MH_MAGIC_64) throw new Error("this is no 64-bit Mach-O file");
  const commands: LoadCommand[] = [];
  for (let at = HEADER_BYTES, left = file.readUInt32LE(16); left > 0; left--) {
    const [kind, size] = [file.readUInt32LE(at), file.readUInt32LE(at + 4)];
    commands.push({ at, kind, size });
    at += size;
  }
  return commands;
}

/** Says for which processor the program is, and how it is signed: "invalid" where a page is not what the signature says. */
export function signatureOf(file: Buffer): { readonly isArm: boolean; readonly signature: "none" | "ad hoc" | "other" | "invalid" } {
  const isArm = file.readUInt32LE(4) === CPU_TYPE_ARM64;
  const command = commandsOf(file).find(({ kind }) => kind === LC_CODE_SIGNATURE);
  if (command === undefined) return { isArm, signature: "none" };
  const blob = file.readUInt32LE(command.at + 8);
  // Index of the blobs in a signature: each a type and an offset, big-endian.
  const offsets = Array.from({ length: file.readUInt32BE(blob + 8) }, (_, index) => blob + file.readUInt32BE(blob + 16 + 8 * index));
  const directory = offsets.find((at) => file.readUInt32BE(at) === CS_MAGIC_CODEDIRECTORY);
  if (directory === undefined) return { isArm, signature: "invalid" };
  const isWhole = wrongPages(file, directory) === 0 && blob + file.readUInt32LE(command.at + 12) === file.length;
  return { isArm, signature: !isWhole ? "invalid" : (file.readUInt32BE(directory + 12) & CS_ADHOC) !== 0 ? "ad hoc" : "other" };
}

/** Counts the pages whose digest is another one than the code directory has. */
function wrongPages(file: Buffer, directory: number): number {
  const [digests, count, limit] = [16, 28, 32].map((field) => file.readUInt32BE(directory + field));
  const [size = 0, kind, , bits = 0] = file.subarray(directory + 36, directory + 40);
  if (digests === undefined || count === undefined || limit === undefined || kind !== SHA256) return 1;
  let wrong = 0;
  for (let page = 0; page < count; page++) {
    const content = file.subarray(page << bits, Math.min((page + 1) << bits, limit));
    const at = directory + digests + page * size;
    if (
      !createHash("sha256")
        .update(content)
        .digest()
        .equals(file.subarray(at, at + size))
    )
      wrong++;
  }
  return wrong;
}

/** @throws Error where the signature is not at the file's end, or not the last command */
function withoutSignature(file: Buffer): Buffer {
  const commands = commandsOf(file);
  const command = commands.find(({ kind }) => kind === LC_CODE_SIGNATURE);
  if (command === undefined) return file;
  const [from, size] = [file.readUInt32LE(command.at + 8), file.readUInt32LE(command.at + 12)];
  const links = commands.find(({ at, kind }) => kind === LC_SEGMENT_64 && file.toString("latin1", at + 8, at + 18) === "__LINKEDIT");
  if (command !== commands.at(-1) || from + size !== file.length || links === undefined) throw new Error("the signature is not at the end");
  const changed = Buffer.from(file.subarray(0, from));
  changed.writeUInt32LE(commands.length - 1, 16);
  changed.writeUInt32LE(file.readUInt32LE(20) - command.size, 20);
  changed.fill(0, command.at, command.at + command.size);
  const begins = file.readBigUInt64LE(links.at + 40);
  changed.writeBigUInt64LE(BigInt(from) - begins, links.at + 48);
  return changed;
}

if (import.meta.main) {
  const path = process.argv[2] ?? "";
  const file = readFileSync(path);
  const { isArm, signature } = signatureOf(file);
  if (isArm && signature !== "ad hoc") throw new Error(`${path}: the signature is ${signature}: a Mac would not start this`);
  if (!isArm) writeFileSync(path, withoutSignature(file));
}
