/** A process that logs: `bun append-lines.ts FILE NAME COUNT MEGABYTES` appends COUNT numbered lines, each the way an operation does. */
import { appendToLogFile } from "../../../../lib/log/file.ts";

const [file = "", name = "", count = "0", megabytes = "1"] = process.argv.slice(2);
const config = { level: "info", filePath: file, fileMaxSize: Number(megabytes), fileMaxAge: 30, fileMaxCount: 1_000 } as const;
for (let line = 0; line < Number(count); line++) {
  const problem = await appendToLogFile(config, file, Buffer.from(`${name} ${line} ${"x".repeat(80)}\n`));
  if (problem !== undefined) {
    process.stderr.write(`${problem}\n`);
    process.exitCode = 1;
  }
}
