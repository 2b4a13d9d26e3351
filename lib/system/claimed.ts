/**
 * Holds a value that another node, a tenant or a file says of itself (design, invariant 17). It cannot be read: whoever needs it hands in a
 * proof, and gets what the proof gives. The compiler thereby finds each reader that believes without one.
 */
export class Claimed<T> {
  // Not `#value`: watches compare what they decode before and after, and see nothing of fields that are private at run time.
  private readonly value: T;

  constructor(value: T) {
    this.value = value;
  }

  /**
   * @param proof decides from something else than the claim whether it holds: an allocation, a range that the cluster gave, the kernel.
   *   It returns what has been proven, `undefined` for nothing
   */
  prove<P>(proof: (claim: T) => P): P {
    return proof(this.value);
  }
}
