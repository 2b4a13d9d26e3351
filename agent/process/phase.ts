/** The phase of the agent, as `agent.json` and every answer say it (A§0.2, A§0.3). */
import { writeWhole } from "../../lib/system/write-whole.ts";
import type { AgentFile } from "../run-directory/agent-file.ts";

export type Phase = AgentFile["phase"];

const FILE_MODE = 0o644;

export class PhaseFile {
  readonly #path: string;
  readonly #about: Omit<AgentFile, "phase">;
  #phase: Phase = "starting";

  constructor(path: string, about: Omit<AgentFile, "phase">) {
    this.#path = path;
    this.#about = about;
    this.#write();
  }

  get phase(): Phase {
    return this.#phase;
  }

  set(phase: Phase): void {
    if (phase === this.#phase) return;
    this.#phase = phase;
    this.#write();
  }

  #write(): void {
    const file: AgentFile = { ...this.#about, phase: this.#phase };
    writeWhole(this.#path, `${JSON.stringify(file, undefined, 2)}\n`, FILE_MODE);
  }
}
