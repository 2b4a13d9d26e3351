import { once } from "../../../../lib/system/waiting.ts";

describe("once", () => {
  it.each(["a value", undefined])("makes %p when it is first asked for, and never again", (result) => {
    let made = 0;
    const get = once(() => {
      made++;
      return result;
    });

    expect(made).toBe(0);
    expect([get(), get()]).toEqual([result, result]);
    expect(made).toBe(1);
  });
});
