/** `bun deny-write-execute.ts PROGRAM ARGUMENT…`: becomes PROGRAM, which may have no memory that is written and executed (prctl(2)). */
import { dlopen, ptr } from "bun:ffi";

const PR_SET_MDWE = 65;
const PR_MDWE_REFUSE_EXEC_GAIN = 1n;

const { prctl, execv } = dlopen("libc.so.6", {
  prctl: { args: ["i32", "u64", "u64", "u64", "u64"], returns: "i32" },
  execv: { args: ["ptr", "ptr"], returns: "i32" },
}).symbols;

const argv = process.argv.slice(2).map((argument) => new TextEncoder().encode(`${argument}\0`));
const [program = new Uint8Array(1)] = argv;
const pointers = BigUint64Array.from([...argv.map((argument) => BigInt(ptr(argument))), 0n]);
if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0n, 0n, 0n) !== 0) throw new Error("this kernel has no PR_SET_MDWE (Linux 6.3)");
execv(program, pointers);
throw new Error("cannot execute");
