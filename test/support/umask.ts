/** Sets the umask until the end of the block: `using _ = umask(0)`. */
export function umask(mask: number): Disposable {
  const before = process.umask(mask);
  return { [Symbol.dispose]: () => void process.umask(before) };
}
