/** What an address is, apart from what can be done with one. */

export type Family = 4 | 6;

export interface Address {
  readonly family: Family;
  /** The bits in network byte order as one number. */
  readonly value: bigint;
}
