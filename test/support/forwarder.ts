/** The forwarder in a folder of its own, before a program that only tells how it was called, and behind an agent that the test plays. */
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { callLength, encodeAnswer } from "../../handover/decode-frame.ts";

/** Prints its options and the size of its standard input, which it keeps beside itself. */
const PROGRAM = `#!/bin/sh
echo "program: $*"
cat | { tee /dev/fd/3 | wc -c; } 3>"\${0%/*}/seen"
`;

export interface ForwarderRun {
  readonly exit: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ForwarderOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string | Uint8Array;
  readonly args?: readonly string[];
  /** What runs it, for instance strace. */
  readonly around?: readonly string[];
}

export class ForwarderFolder implements AsyncDisposable {
  readonly dir = mkdtempSync(join(tmpdir(), "tortie-forwarder-"));
  readonly file = join(this.dir, "tortie");
  readonly calls: Buffer[] = [];
  #server: Server | undefined;

  /** @param forwarder its executable @param program text of the script that stands for the program */
  constructor(forwarder: string, program = PROGRAM) {
    copyFileSync(forwarder, this.file);
    writeFileSync(`${this.file}-main`, program, { mode: 0o755 });
  }

  /** What the program read, where one ran. */
  get seenFile(): string {
    return join(this.dir, "seen");
  }

  /** Plays the agent. @param answer called once a whole call has come */
  async listen(answer: (socket: Socket, call: Buffer) => void): Promise<void> {
    this.#server = createServer((socket) => {
      let received = Buffer.alloc(0);
      let isAnswered = false;
      socket.on("error", () => undefined);
      socket.on("data", (chunk: Buffer) => {
        received = Buffer.concat([received, chunk]);
        if (isAnswered || received.length !== callLength(received)) return;
        isAnswered = true;
        this.calls.push(received);
        answer(socket, received);
      });
    });
    await new Promise<void>((done) => this.#server?.listen(join(this.dir, "cni.sock"), done));
  }

  /** The variables of an ADD; nothing else is in the environment. */
  get variables(): Readonly<Record<string, string>> {
    return {
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "cid1",
      CNI_IFNAME: "eth0",
      CNI_PATH: this.dir,
      TORTIE_SOCK: join(this.dir, "tortie.sock"),
    };
  }

  async run({ env = this.variables, stdin = "{}", args = [], around = [] }: ForwarderOptions = {}): Promise<ForwarderRun> {
    await using child = Bun.spawn([...around, this.file, ...args], { env, stdin: Buffer.from(stdin), stdout: "pipe", stderr: "pipe" });
    const [stdout, stderr, exit] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
    return { exit, stdout, stderr };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server?.close();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** A whole answer. */
export function answerOf(status: number, body: string): Uint8Array {
  return encodeAnswer({ status, body });
}
