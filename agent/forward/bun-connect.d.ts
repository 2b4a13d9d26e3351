/** Bun connects by a descriptor too, and has a type for it, which its declarations of `connect` lack. */
declare module "bun" {
  function connect<Data = undefined>(options: FdSocketOptions<Data>): Promise<Socket<Data>>;
}

export {};
