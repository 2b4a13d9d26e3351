/** A pretend machine with a list of Tortie's, an uplink and a pod, for `tortiectl doctor`: what it says of one check, before and after a change. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CheckResult, Report } from "../../doctor/report.ts";
import { addressesOf, hostEndOf } from "./cni-result.ts";
import { localConf } from "./conf.ts";
import { BIN_DIR, Node, type Pod, REFERENCE_PLUGINS_DIR, type RunOptions } from "./node.ts";

export interface Doctored {
  readonly exit: number | null;
  readonly report: Report;
}

export class DoctorNode implements AsyncDisposable {
  readonly node: Node;
  readonly netDir: string;
  /** Given to every call of the doctor. */
  readonly args: string[];

  private constructor(node: Node) {
    this.node = node;
    this.netDir = join(node.dir, "net.d");
    mkdirSync(this.netDir);
    this.args = [
      "--net-dir",
      this.netDir,
      "--cni-bin-dir",
      `${BIN_DIR}:${REFERENCE_PLUGINS_DIR}`,
      "--socket",
      join(node.dir, "run/tortie.sock"),
    ];
  }

  static async create(): Promise<DoctorNode> {
    const host = new DoctorNode(await Node.create());
    host.list();
    for (const command of [
      "link add up0 type bridge",
      "address add 192.0.2.2/24 dev up0",
      "link set up0 up",
      "route add default via 192.0.2.1",
    ]) {
      await host.node.ip(...command.split(" "));
    }
    return host;
  }

  /** Returns the plugin's part of the list. */
  conf(change: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
    return localConf(this.node, change);
  }

  /** Writes a list of one plugin, and of those given. */
  list(change: Readonly<Record<string, unknown>> = {}, others: readonly object[] = [], name = "10-tortie.conflist"): string {
    const { cniVersion, name: network, ...plugin } = this.conf({ cniVersion: "1.1.0", ...change });
    return this.file(name, JSON.stringify({ cniVersion, name: network, plugins: [plugin, ...others] }));
  }

  file(name: string, text: string): string {
    const path = join(this.netDir, name);
    writeFileSync(path, text);
    return path;
  }

  /** Adds a pod without an agent, as a runtime does. @returns its host interface */
  async pod(
    change: Readonly<Record<string, unknown>> = {},
  ): Promise<{ readonly pod: Pod; readonly link: string; readonly address: string }> {
    const pod = await this.node.addPod();
    const { exit, stdout, json } = await this.node.cni("ADD", { pod, conf: this.conf({ cniVersion: "1.1.0", ...change }) });
    if (exit !== 0) throw new Error(`ADD: ${stdout}`);
    return { pod, link: hostEndOf(json), address: addressesOf(json)[0] ?? "" };
  }

  async ask(options: RunOptions = {}, more: readonly string[] = []): Promise<Doctored> {
    const { exit, stdout, stderr } = await this.node.run([join(BIN_DIR, "tortiectl"), "doctor", "--json", ...this.args, ...more], options);
    if (!stdout.startsWith("{")) throw new Error(`tortiectl doctor: exit ${exit}: ${stdout}${stderr}`);
    return { exit, report: JSON.parse(stdout) };
  }

  /** Returns what one check says. */
  async says(check: string, options: RunOptions = {}): Promise<readonly CheckResult[]> {
    return rowsOf(await this.ask(options), check);
  }

  async sh(command: string): Promise<void> {
    const { exit, stderr } = await this.node.run(["/bin/sh", "-ec", command]);
    expect({ command, exit, stderr: exit === 0 ? "" : stderr }).toEqual({ command, exit: 0, stderr: "" });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.node[Symbol.asyncDispose]();
  }
}

export function rowsOf({ report }: Doctored, check: string): readonly CheckResult[] {
  return report.results.filter((one) => one.check === check);
}

/** Matches the one row that a check has, with its next step. */
export function finding(status: "failed" | "warning", message: string | RegExp, next: string | RegExp = /./) {
  return [expect.objectContaining({ status, message: expect.stringMatching(message), next: expect.stringMatching(next) })];
}

/** Matches rows that are all well. */
export const WELL = expect.arrayContaining([expect.objectContaining({ status: "ok" })]);

/** Takes from a next step the commands that it names, as somebody copies them who reads it. */
export function commandIn(next: string | undefined, pattern: RegExp): string {
  const [command] = pattern.exec(next ?? "") ?? [];
  if (command === undefined) throw new Error(`no ${pattern} in ${next}`);
  return command;
}
