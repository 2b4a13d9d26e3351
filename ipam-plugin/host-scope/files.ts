/** Says where host scope keeps its files, below the agent's run directory (A§0.2). */

export interface HostScopeFiles {
  readonly grants: string;
  /** Exists when the node has, or had, ranges of its own. */
  readonly nodeRecord: string;
}

/** @param runDirectory of the agent, `/run/tortie` */
export function hostScopeFiles(runDirectory: string): HostScopeFiles {
  return { grants: `${runDirectory}/state/ipam`, nodeRecord: `${runDirectory}/state/node.json` };
}
