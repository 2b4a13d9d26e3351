/** Writes the agent's own log, on standard error and in a file: one line an event, in the form of the plugins' (lib/log/format.ts). */
import { createLogger, format, transports } from "winston";
import { isObject } from "../json/decode.ts";
import { formatLine } from "../log/format.ts";
import type { Logger } from "../log/logger.ts";
import { Secrets } from "../log/secrets.ts";

export interface AgentLog extends Pick<Logger, "debug" | "info" | "error"> {
  /** SIGHUP may change it. */
  setLevel(level: "debug" | "info" | "error"): void;
  /** Opens the file again after it was moved away. */
  reopen(): void;
  close(): Promise<void>;
}

/** Bytes of the file before it is rotated, and how many are kept. */
const MAX_FILE_BYTES = 100_000_000;
const MAX_FILES = 10;

export function createAgentLog(level: "debug" | "info" | "error", file: string | undefined): AgentLog {
  const secrets = new Secrets();
  const line = format.printf(({ level: severity, message, fields }) =>
    secrets.redact(formatLine(new Date(), severity, String(message), `pid=${process.pid}`, isObject(fields) ? fields : {})),
  );
  const toFile = () => (file === undefined ? [] : [new transports.File({ filename: file, maxsize: MAX_FILE_BYTES, maxFiles: MAX_FILES })]);
  let files = toFile();
  const console = new transports.Console({ stderrLevels: ["debug", "info", "error"] });
  const logger = createLogger({ level, format: line, transports: [console, ...files], exitOnError: false });
  // A full disk must not end the agent.
  logger.on("error", () => undefined);
  return {
    debug: (message, fields) => void logger.debug(message, { fields }),
    info: (message, fields) => void logger.info(message, { fields }),
    error: (message, fields) => void logger.error(message, { fields }),
    setLevel: (next) => {
      logger.level = next;
    },
    reopen() {
      for (const old of files) logger.remove(old);
      files = toFile();
      for (const next of files) logger.add(next);
    },
    close: () =>
      new Promise((done) => {
        logger.once("finish", done);
        logger.end();
      }),
  };
}

/**
 * Listens to signals: SIGTERM and SIGINT end the process, SIGHUP has it read its configuration again.
 * @returns `ended` resolves with the name of the first signal that ends the process
 */
export function watchSignals(onReload: () => void): { readonly ended: Promise<string> } {
  process.on("SIGHUP", onReload);
  const ended = new Promise<string>((done) => {
    for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => done(name));
  });
  return { ended };
}
