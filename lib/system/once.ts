/** Makes what is asked for when it is first asked for, and only then. */
export function once<T>(make: () => T): () => T {
  let made: { readonly result: T } | undefined;
  return () => {
    made ??= { result: make() };
    return made.result;
  };
}
