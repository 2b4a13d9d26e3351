/**
 * The handle of a virtual machine: its addresses belong to the machine, not to one of its pods (I§1.9, I§2.5).
 * `<network>.vmi.<namespace>.<machine>`, which no other namespace can yield because a namespace has no dot.
 */

/** Longest handle of a machine; Calico's bound (I§1.9). */
const MAX_LENGTH = 128;
/** 128 bits: two machines of one network do not meet by chance. */
const FEWEST_DIGITS = 32;

/**
 * The same for every pod of a machine, for ever. A handle that would be too long has a hash in the place of what makes it so:
 *
 *   `<network>.vmi.<hash>`   SHA-256 of `<namespace>.<machine>` in hexadecimal digits, as many as fit, at least 32
 *   `<hash>.vmi.<hash>`      where the network's name leaves no room: of it the first 32 digits, then all 64 of the other
 *
 * Digits and dots make a legal name of a Kubernetes object, and no readable handle has a last part without a dot. Calico crashes on
 * such names, or writes one that starts with `_` and that Kubernetes refuses (recordings vm-long-name, vm-network-underscore), so no
 * stored handle of theirs can be missed.
 */
export function machineHandleId(network: string, namespace: string, machine: string): string {
  const suffix = `${namespace}.${machine}`;
  const readable = withMark(network, suffix);
  if (readable.length <= MAX_LENGTH) return readable;
  const digits = sha256(suffix);
  const hashed = withMark(network, digits).slice(0, MAX_LENGTH);
  if (hashed.length - withMark(network, "").length >= FEWEST_DIGITS) return hashed;
  return withMark(sha256(network).slice(0, FEWEST_DIGITS), digits);
}

function withMark(network: string, rest: string): string {
  return `${network}.vmi.${rest}`;
}

function sha256(text: string): string {
  return new Bun.CryptoHasher("sha256").update(text).digest("hex");
}
