/** One call of one plugin of a chain, and its failure told with its place in the chain. */

import { ForeignCniError, messageOf, TortieError } from "../../errors/errors.ts";
import type { JsonObject } from "../../json/value.ts";
import type { CniCommand } from "../protocol.ts";
import type { Attachment } from "./attachment.ts";
import type { Conflist, PluginConf } from "./conflist.ts";

/**
 * Runs a plugin. `attachment` is absent for STATUS and GC.
 * @returns what it printed; `undefined` when that is nothing
 * @throws ForeignCniError the plugin's own error; TortieError when it cannot be found or run
 */
export type PluginRunner = (
  type: string,
  command: CniCommand,
  attachment: Attachment | undefined,
  netconf: JsonObject,
) => Promise<JsonObject | undefined>;

export interface CniFailure {
  readonly code: number;
  readonly message: string;
  /** Empty when there are none. */
  readonly details: string;
}

/** A plugin of the chain said no, or could not be run. */
export class PluginFailure extends Error {
  readonly network: string;
  readonly plugin: string;
  /** "2 of 3" */
  readonly position: string;
  readonly command: CniCommand;
  readonly failure: CniFailure;
  /** What went wrong when a failed ADD was taken back; `undefined`: nothing was taken back. */
  readonly undo: readonly PluginFailure[] | undefined;

  constructor(list: Conflist, plugin: PluginConf, command: CniCommand, failure: CniFailure, undo?: readonly PluginFailure[]) {
    super(`plugin ${plugin.type}: ${command} failed: ${failure.message}`);
    this.name = "PluginFailure";
    this.network = list.name;
    this.plugin = plugin.type;
    this.position = `${list.plugins.indexOf(plugin) + 1} of ${list.plugins.length}`;
    this.command = command;
    this.failure = failure;
    this.undo = undo;
    this.withUndo = (failures) => new PluginFailure(list, plugin, command, failure, failures);
  }

  /** The same failure, with what became of taking the ADD back. */
  readonly withUndo: (failures: readonly PluginFailure[]) => PluginFailure;

  static of(list: Conflist, plugin: PluginConf, command: CniCommand, error: unknown): PluginFailure {
    return new PluginFailure(list, plugin, command, describe(error));
  }
}

function describe(error: unknown): CniFailure {
  if (error instanceof ForeignCniError) return { code: error.code, message: error.message, details: error.details ?? "" };
  if (error instanceof TortieError) {
    const details = [error.details, `${error.word}: ${error.next}`].filter((part) => part !== undefined).join("; ");
    return { code: error.code, message: error.message, details };
  }
  return { code: 999, message: messageOf(error), details: "" };
}
