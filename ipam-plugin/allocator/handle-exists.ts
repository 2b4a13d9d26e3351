/** The answer to `mustBeNew`: a signal between a caller and the allocator, never an error that a runtime sees. */

/** There is a handle of this name already; nothing was taken. */
export class HandleExistsError extends Error {
  constructor(handle: string) {
    super(`handle ${handle} exists already`);
    this.name = "HandleExistsError";
  }
}
