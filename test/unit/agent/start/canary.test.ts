import { NamespaceCanary } from "../../../../agent/start/guarded-dataplane.ts";

class Ended extends Error {}

describe("The namespace canary", () => {
  const end = (message: string): never => {
    throw new Ended(message);
  };

  it("lets pass a thread that is where it began", () => {
    const canary = new NamespaceCanary(end, () => "4:1");
    expect(() => canary.check()).not.toThrow();
  });

  it("ends a process whose thread was left in another network namespace", () => {
    let here = "4:1";
    const canary = new NamespaceCanary(end, () => here);
    here = "4:2";
    expect(() => canary.check()).toThrow(Ended);
    expect(() => canary.check()).toThrow("4:2");
  });

  it("looks at this very thread", () => {
    expect(() => new NamespaceCanary(end).check()).not.toThrow();
  });
});
