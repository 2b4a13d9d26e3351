/** CNI plugins that do nothing but note how they were called, and answer as the test says: shell scripts in a folder for CNI_PATH. */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** One call as the plugin saw it. */
export interface PluginCall {
  readonly plugin: string;
  readonly command: string;
  /** Its whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Standard input as it came. */
  readonly stdin: string;
}

export class RecordingPlugins {
  /** For CNI_PATH. */
  readonly dir: string;

  constructor(dir: string) {
    this.dir = dir;
    mkdirSync(join(dir, "calls"), { recursive: true });
    mkdirSync(join(dir, "answers"));
  }

  /** Adds a plugin; by default it answers every command with exit status 0 and nothing on standard output. */
  install(plugin: string): void {
    writeFileSync(join(this.dir, plugin), SCRIPT(this.dir));
    chmodSync(join(this.dir, plugin), 0o755);
  }

  /** From now on `plugin` prints `output` for `command` and exits with `exit`. */
  answer(plugin: string, command: string, output: unknown, exit = 0): void {
    const text = typeof output === "string" ? output : JSON.stringify(output);
    writeFileSync(join(this.dir, "answers", `${plugin}.${command}`), text);
    writeFileSync(join(this.dir, "answers", `${plugin}.${command}.exit`), String(exit));
  }

  /** Every call so far, in order, but for VERSION, by which a runtime finds out what it may ask. */
  calls(): PluginCall[] {
    return this.#all().filter(({ command }) => command !== "VERSION");
  }

  #all(): PluginCall[] {
    const file = join(this.dir, "calls", "log");
    if (!existsSync(file)) return [];
    const lines = readFileSync(file, "utf8").trim().split("\n");
    return lines.map((line) => {
      const [plugin = "", command = "", number = ""] = line.split(" ");
      const env = readFileSync(join(this.dir, "calls", `${number}.env`), "utf8").split("\0");
      return {
        plugin,
        command,
        env: Object.fromEntries(
          env.filter((pair) => pair !== "").map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]),
        ),
        stdin: readFileSync(join(this.dir, "calls", `${number}.stdin`), "utf8"),
      };
    });
  }

  /** "plugin COMMAND" of every call so far, in order. */
  order(): string[] {
    return this.calls().map(({ plugin, command }) => `${plugin} ${command}`);
  }
}

/** A chain is called one plugin at a time, so a number a call needs no lock. Works with an environment without PATH. */
const SCRIPT = (dir: string): string => `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
dir='${dir}'
me=\${0##*/}
number=$(ls "$dir/calls" | grep -c stdin)
cat > "$dir/calls/$number.stdin"
cat /proc/$$/environ > "$dir/calls/$number.env"
echo "$me $CNI_COMMAND $number" >> "$dir/calls/log"
answer="$dir/answers/$me.$CNI_COMMAND"
[ -e "$answer" ] || exit 0
cat "$answer"
exit "$(cat "$answer.exit")"
`;
