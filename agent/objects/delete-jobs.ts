/**
 * Deletions of endpoint objects that must happen although the agent may end before they can (A§6.4): one file each in `<state>/jobs`,
 * repeated until the object with that uid is gone. An object of the same name with another uid belongs to another owner.
 */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../../lib/errors/errors.ts";
import { field, isText, optional, parseObject } from "../../lib/json/decode.ts";
import type { NamespacedName } from "../../lib/kubernetes/objects.ts";
import { systemErrorCode } from "../../lib/system/errno.ts";
import { makeDirectories } from "../../lib/system/files.ts";
import { writeWhole } from "../../lib/system/write-whole.ts";
import { isRefused, type ObjectApi } from "./object-api.ts";

const MOST_JOBS = 4096;

interface DeleteJob extends NamespacedName {
  readonly uid: string;
  readonly resourceVersion?: string;
}

interface DeleteJobsOptions {
  /** `<state>/jobs`. */
  readonly directory: string;
  readonly api: ObjectApi;
  /** A job is there that was not before: the controller that calls `runAll` is to run. */
  readonly onAdded: () => void;
  /** Called for files that are not jobs, and for jobs that had to go. */
  readonly onProblem: (message: string) => void;
}

export class DeleteJobs {
  readonly #options: DeleteJobsOptions;
  /** By uid, in the order in which they came. */
  readonly #jobs = new Map<string, DeleteJob>();

  /** Reads what an earlier process left. */
  constructor(options: DeleteJobsOptions) {
    this.#options = options;
    makeDirectories(options.directory, 0o700);
    for (const name of readdirSync(options.directory).sort()) {
      const job = name.endsWith(".json") ? this.#read(name) : undefined;
      if (job !== undefined) this.#jobs.set(job.uid, job);
    }
  }

  get count(): number {
    return this.#jobs.size;
  }

  /** Adds a job, durable when it returns. */
  add(job: DeleteJob): void {
    if (this.#jobs.size >= MOST_JOBS) this.#dropOldest();
    this.#jobs.set(job.uid, job);
    writeWhole(this.#pathOf(job.uid), JSON.stringify(job), 0o600);
    this.#options.onAdded();
  }

  /** Drops the job of an object that is wanted again. */
  cancel(uid: string): void {
    if (this.#jobs.delete(uid)) rmSync(this.#pathOf(uid), { force: true });
  }

  /** Tries every job once. @throws Error when one or more must be tried again */
  async runAll(signal: AbortSignal): Promise<void> {
    const failures: string[] = [];
    for (const job of [...this.#jobs.values()]) {
      if (signal.aborted) return;
      try {
        await this.#run(job);
        this.cancel(job.uid);
      } catch (error) {
        failures.push(`${job.namespace}/${job.name}: ${messageOf(error)}`);
      }
    }
    if (failures.length > 0) throw new Error(`${failures.length} objects are still to be deleted: ${failures[0]}`);
  }

  async #run(job: DeleteJob): Promise<void> {
    try {
      await this.#options.api.delete(job, job);
      return;
    } catch (error) {
      if (isRefused(error, "not-found")) return;
      if (!isRefused(error, "conflict")) throw error;
    }
    // The object was changed, or replaced by another one.
    const there = await this.#options.api.get(job).catch((error: unknown) => {
      if (isRefused(error, "not-found")) return undefined;
      throw error;
    });
    if (there?.uid !== job.uid || !this.#jobs.has(job.uid)) return;
    const { uid, resourceVersion } = there;
    await this.#options.api.delete(job, { uid, resourceVersion });
  }

  #dropOldest(): void {
    const oldest = this.#jobs.keys().next().value;
    if (oldest === undefined) return;
    this.#options.onProblem(`more than ${MOST_JOBS} objects are to be deleted: the oldest of these jobs is given up`);
    this.cancel(oldest);
  }

  #pathOf(uid: string): string {
    // A uid is what the server says it is, and part of a path here.
    return join(this.#options.directory, `${encodeURIComponent(uid).slice(0, 200)}.json`);
  }

  #read(name: string): DeleteJob | undefined {
    const path = join(this.#options.directory, name);
    try {
      const object = parseObject(readFileSync(path, "utf8"));
      return {
        namespace: field(object, "namespace", isText),
        name: field(object, "name", isText),
        uid: field(object, "uid", isText),
        ...optional(object, "resourceVersion", isText),
      };
    } catch (error) {
      if (systemErrorCode(error) !== "ENOENT") this.#options.onProblem(`${path} is no job: ${messageOf(error)}`);
      return undefined;
    }
  }
}
