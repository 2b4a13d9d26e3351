/**
 * Which system tests are about a part of the tree. They are played before the rest of its folder's, most of which say nothing of the
 * part and take a minute: what a test is about cannot be told from its imports, as all of them drive the whole program.
 */
export interface NearTests {
  /** As scripts/jest narrows a suite. */
  readonly pattern: string;
  /** They run the source, and not the executables that are built of it. */
  readonly runsSource: boolean;
}

const DATAPLANE: readonly (readonly [RegExp, string])[] = [
  [/^dataplane\/nftables\//, "dataplane/(nat|rules-as-nft)"],
  [/^dataplane\/linux\/apply-node-state\.ts/, "dataplane/(nat|network)"],
  [/^dataplane\/rtnetlink\/(peer|vxlan|node-route)\.ts|^dataplane\/linux\/apply-/, "dataplane/(network|tunnel-guards)"],
  [/^dataplane\/netlink\//, "dataplane/(netlink-socket|large-tables)"],
  [
    /^dataplane\/linux\/(detach|delete-link|joined-deletions|host-links)\.ts|^dataplane\/rtnetlink\/namespace-id\.ts/,
    "dataplane/(detach|joined-deletions|mend)",
  ],
  [/^dataplane\/linux\/(inspect|mend)\.ts/, "dataplane/(inspect|mend)"],
  [/^dataplane\//, "dataplane/(attach|inspect)"],
];

/** @param file below the root */
export function testsNear(file: string): NearTests | undefined {
  if (file.startsWith("installer/")) return { pattern: "installer/install", runsSource: false };
  const pattern = DATAPLANE.find(([part]) => part.test(file))?.[1];
  return pattern === undefined ? undefined : { pattern, runsSource: true };
}
