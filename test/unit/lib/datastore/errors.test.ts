import { DatastoreError, isDatastoreFailure, isRefusal } from "../../../../lib/datastore/errors.ts";
import { TortieError } from "../../../../lib/errors/errors.ts";

describe("a failure of the datastore", () => {
  it.each([
    ["unavailable", "datastore-unavailable"],
    ["unauthorized", "datastore-unauthorized"],
    ["not-found", "datastore-object-missing"],
    ["conflict", "datastore-contention"],
    ["already-exists", "datastore-contention"],
    ["invalid", "datastore-object-invalid"],
  ] as const)("has a word of its own: %s", (failure, word) => {
    const cause = new Error("what the driver said");
    const error = new DatastoreError(failure, "resource X is so", cause);
    expect(error).toBeInstanceOf(TortieError);
    expect(error).toMatchObject({ failure, word, code: 999, message: "resource X is so", cause });
  });

  it("is told apart from other failures and from a refusal, which repeating the operation does not change", () => {
    const conflict = new DatastoreError("conflict", "update conflict");
    const refusal = new TortieError("address-taken", "10.0.0.1 is taken");
    expect([conflict, refusal].map((error) => isDatastoreFailure(error, "not-found", "conflict"))).toEqual([true, false]);
    expect(isDatastoreFailure(conflict, "not-found")).toBe(false);
    expect([conflict, refusal, new Error("a defect")].map(isRefusal)).toEqual([false, true, false]);
  });
});
