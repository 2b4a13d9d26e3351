/** What the process is told by signals: SIGTERM and SIGINT end it, SIGHUP has it read its configuration again. */

export interface Signals {
  /** Resolves with the name of the first signal that ends the process. */
  readonly ended: Promise<string>;
}

export function watchSignals(onReload: () => void): Signals {
  process.on("SIGHUP", onReload);
  const ended = new Promise<string>((done) => {
    for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => done(name));
  });
  return { ended };
}
