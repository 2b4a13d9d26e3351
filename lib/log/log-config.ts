/** What the network configuration says of the log (C§1.2, `log_*`). */
export interface LogConfig {
  readonly level: "debug" | "info" | "error";
  readonly filePath: string | undefined;
  /** Megabytes. */
  readonly fileMaxSize: number;
  /** Days. */
  readonly fileMaxAge: number;
  readonly fileMaxCount: number;
}
