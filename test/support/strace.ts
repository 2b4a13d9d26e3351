/** Programs that are started under strace, which does something to their system calls (strace(1), --inject). */

/** @param fault what becomes of these calls: "signal=SIGKILL:when=7" @returns what stands before the program */
export function injecting(calls: string, fault: string): readonly string[] {
  return ["/usr/bin/strace", "-f", "-qq", "-o", "/dev/null", "-e", `trace=${calls}`, "-e", `inject=${calls}:${fault}`];
}
