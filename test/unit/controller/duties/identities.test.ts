/** How sets of labels get numbers, keep them while pods have the set, and lose them when nobody uses them (P§1.13). */
import { identitiesCheck } from "../../../../controller/health.ts";
import { IDENTITY_PATH } from "../../../../lib/identity/identity-object.ts";
import { labelSetOf, labelsOfPod } from "../../../../lib/identity/labels.ts";
import { CANDIDATES, candidatesOf } from "../../../../lib/identity/numbers.ts";
import type { JsonObject } from "../../../../lib/json/value.ts";
import { ApiError } from "../../../../lib/kubernetes/api-client.ts";
import { ControllerWorld, NAMESPACE } from "../../../support/controller-world.ts";
import { fresh } from "../../../support/fixtures.ts";

const DAY_MINUTES = 24 * 60;

function worldWithNamespace(given: Readonly<Record<string, string>> = {}): ControllerWorld {
  const world = new ControllerWorld(given);
  world.api.put(`/api/v1/namespaces/${NAMESPACE}`, { metadata: { labels: { team: "blue" } } });
  return world;
}

const world = fresh(worldWithNamespace);

function addPod(name: string, labels: Record<string, string> = { app: "web" }, facts: JsonObject = {}): void {
  world.api.put(`/api/v1/namespaces/${NAMESPACE}/pods/${name}`, {
    metadata: { labels },
    spec: { nodeName: "node1" },
    status: { phase: "Running" },
    ...facts,
  });
}

const keyOf = (labels: Record<string, string> = { app: "web" }, team = "blue") =>
  labelSetOf(labelsOfPod({ namespace: NAMESPACE, labels, serviceAccountName: "" }, { team })).key;
const numbersOf = (labels?: Record<string, string>) => candidatesOf(keyOf(labels));
const first = (labels?: Record<string, string>) => numbersOf(labels)[0] ?? 0;
const pathOf = (number: number) => `${IDENTITY_PATH}/${number}`;
const spec = (number: number) => Object(world.api.get(pathOf(number))).spec;

function putIdentity(number: number, key: string, more: JsonObject = {}): void {
  world.api.put(pathOf(number), { spec: { key, labels: [key], state: "active", createdBy: "test", createdAt: "x", ...more } });
}

describe("A set of labels that a pod has", () => {
  it("gets the first number that its labels lead to, whichever of its pods comes first", async () => {
    addPod("a", { app: "web", "pod-template-hash": "1" });
    addPod("b", { app: "web", "pod-template-hash": "2" });
    await world.look();
    expect(spec(first())).toEqual({
      key: keyOf(),
      labels: ["k8s:app=web", "k8s:namespace=shop", "k8s-namespace:namespace/team=blue"],
      state: "active",
      createdBy: "tortie-controller",
      createdAt: "2030-01-01T00:00:00.000Z",
    });
    expect(world.api.writes).toEqual([`POST ${IDENTITY_PATH}`]);
    expect(world.identityChanges).toEqual(["created"]);
    await world.minutes(60);
    expect(world.api.writes).toHaveLength(1);
    expect(world.duties.identities?.counts).toEqual({ active: 1, retired: 0, missing: 0 });
  });

  it.each<[string, JsonObject]>([
    ["uses the host's network", { spec: { nodeName: "node1", hostNetwork: true } }],
    ["is on no node", { spec: {} }],
    ["has ended", { status: { phase: "Succeeded" } }],
  ])("gets none for a pod that %s", async (_which, facts) => {
    addPod("a", { app: "web" }, facts);
    await world.look();
    expect(world.api.writes).toEqual([]);
  });

  it("gets none while the namespace is not known, since its labels are a part of it", async () => {
    world.api.remove(`/api/v1/namespaces/${NAMESPACE}`);
    addPod("a");
    await world.look();
    expect(world.api.writes).toEqual([]);
    world.api.put(`/api/v1/namespaces/${NAMESPACE}`, {});
    await world.look();
    expect(world.api.writes).toHaveLength(1);
  });

  it("is another one when the namespace's labels change, and the old one is retired", async () => {
    addPod("a");
    await world.look();
    world.api.put(`/api/v1/namespaces/${NAMESPACE}`, { metadata: { labels: { team: "red" } } });
    await world.minutes(17);
    const [number = 0] = candidatesOf(keyOf({ app: "web" }, "red"));
    expect([spec(number)?.state, spec(first())?.state]).toEqual(["active", "retired"]);
  });

  it("I4: gets the next number where the first one is another's, with or without having heard of it", async () => {
    const [heard, unheard] = [{ app: "heard" }, { app: "unheard" }];
    putIdentity(first(heard), "k8s:other=1;");
    // Another writer is faster than the watch.
    world.api.before = ({ method, body = "" }) => {
      if (method === "POST" && body.includes("app=unheard")) putIdentity(first(unheard), "k8s:other=1;");
    };
    for (const labels of [heard, unheard]) {
      addPod(labels.app, labels);
      await world.look();
      expect(spec(numbersOf(labels)[1] ?? 0)).toMatchObject({ key: keyOf(labels), state: "active" });
      expect(world.api.writes.splice(0)).toEqual([`POST ${IDENTITY_PATH}`]);
    }
  });

  it("I4: gets a number of its own where the rows of two sets begin at the same one", async () => {
    // Found by trying.
    const names = ["a1865", "a6422"];
    const spec = { nodeName: "node1", serviceAccountName: "cart" };
    for (const app of names) addPod(app, { app }, { spec });
    await world.look();
    const identities = world.context.view.identities?.identities ?? [];
    const [one, two] = identities.map(({ number }) => number).sort((a, b) => a - b);
    expect(two).toBe((one ?? 0) + 1);
    const keys = names.map(
      (app) => labelSetOf(labelsOfPod({ namespace: NAMESPACE, labels: { app }, serviceAccountName: "cart" }, { team: "blue" })).key,
    );
    expect(identities.map(({ key }) => key).sort()).toEqual(keys);
    expect(keys.map((key) => candidatesOf(key)[0])).toEqual([one, one]);
  });

  it("keeps the number that another writer gave it meanwhile, and revives it where it was retired", async () => {
    for (const state of ["active", "retired"]) {
      const labels = { app: state };
      addPod(state, labels);
      world.api.before = ({ method }) => {
        if (method !== "POST") return;
        world.api.before = () => undefined;
        putIdentity(first(labels), keyOf(labels), { state });
      };
      await world.look();
      expect(spec(first(labels))).toMatchObject({ key: keyOf(labels), state: "active", createdBy: "test" });
      expect(world.identityChanges).toEqual([]);
    }
  });

  it("is tried again after a failure, while the others get theirs", async () => {
    addPod("a", { app: "bad" });
    addPod("b", { app: "good" });
    world.api.before = ({ method, body = "" }) => {
      if (method === "POST" && body.includes("app=bad")) throw new ApiError("arranged", { status: 500 });
    };
    await expect(world.work("identities create")).rejects.toThrow("arranged");
    expect(spec(first({ app: "good" }))).toBeDefined();
    world.api.before = () => undefined;
    await world.look();
    expect(spec(first({ app: "bad" }))).toBeDefined();
  });

  it("is a finding where all 64 numbers are others', and gets one when one is free", async () => {
    addPod("a");
    for (const number of numbersOf()) putIdentity(number, `k8s:other=${number};`);
    await world.look();
    await world.look();
    expect(world.api.writes).toEqual([]);
    const [finding] = world.duties.identities?.findings ?? [];
    expect(finding).toBe(`identity-crowded: each number of ${keyOf()} is another's; there are ${CANDIDATES} identities`);
    expect(world.duties.identities?.counts.missing).toBe(1);
    world.api.remove(pathOf(numbersOf().at(-1) ?? 0));
    await world.look();
    await world.look();
    expect(spec(numbersOf().at(-1) ?? 0)?.key).toBe(keyOf());
    expect(world.duties.identities?.findings).toEqual([]);
  });

  it("is a finding where it is longer than 16 KiB, which names the pod", async () => {
    const labels = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`${"x".repeat(240)}.io/${index}`, "y".repeat(63)]));
    addPod("huge", labels);
    addPod("a");
    await world.look();
    expect(world.duties.identities?.findings).toEqual([`the labels of pod ${NAMESPACE}/huge are too long for an identity`]);
    expect(world.api.writes).toHaveLength(1);
  });
});

describe("A number whose object comes and goes", () => {
  it("is given up for this look after three tries", async () => {
    addPod("a");
    let creations = 0;
    world.api.before = ({ method }) => {
      if (method !== "POST") return;
      creations++;
      throw new ApiError("it exists", { status: 409, reason: "AlreadyExists" });
    };
    await expect(world.work("identities create")).rejects.toThrow(`identity ${first()} is there and is not`);
    expect(creations).toBe(3);
  });
});

describe("Two identities of one set", () => {
  it("are a finding; the one that is probed first is used, and the other one goes like any that nobody uses", async () => {
    addPod("a");
    const [one = 0, two = 0] = numbersOf();
    putIdentity(two, keyOf());
    putIdentity(one, keyOf());
    await world.look();
    const findings = world.duties.identities?.findings ?? [];
    expect(findings).toEqual([`identities ${one} and ${two} stand for the same labels; ${one} is used`]);
    expect(identitiesCheck(() => findings).look()).toMatchObject({ state: "warning", message: `1 finding: ${findings[0]}` });
    await world.minutes(16);
    expect([spec(one)?.state, spec(two)?.state]).toEqual(["active", "retired"]);
    await world.minutes(DAY_MINUTES + 16);
    expect([spec(one)?.state, spec(two)]).toEqual(["active", undefined]);
    expect(identitiesCheck(() => world.duties.identities?.findings ?? []).look().state).toBe("ok");
  });
});

describe("An identity that nobody uses", () => {
  it("I8: is retired after two looks 15 minutes apart, revived with its number, retired again, and deleted after a day", async () => {
    addPod("a");
    await world.look();
    world.removePod("a");
    await world.minutes(15);
    expect(spec(first())?.state).toBe("active");
    await world.minutes(1);
    expect(spec(first())).toMatchObject({ state: "retired", retiredAt: "2030-01-01T00:16:00.000Z" });

    addPod("b");
    await world.look();
    expect(spec(first())).toMatchObject({ state: "active" });
    expect(spec(first())).not.toHaveProperty("retiredAt");

    world.removePod("b");
    await world.minutes(16);
    expect(spec(first())?.state).toBe("retired");
    await world.minutes(DAY_MINUTES - 1);
    expect(spec(first())?.state).toBe("retired");
    await world.minutes(1);
    expect(spec(first())).toBeUndefined();
    expect(world.identityChanges).toEqual(["created", "retired", "revived", "retired", "deleted"]);
    expect(world.log.at(-1)).toBe(`deleted identity ${first()}, which no pod has used for a day: ${keyOf()}`);
  });

  it("stays when a pod had it at a look in between, when somebody wrote to it, and when changes were not heard", async () => {
    putIdentity(first(), keyOf());
    await world.minutes(10);
    addPod("a");
    await world.look();
    world.removePod("a");
    await world.minutes(10);
    putIdentity(first(), keyOf(), { createdBy: "somebody" });
    await world.minutes(10);
    world.api.followedSince = world.clock.now();
    await world.minutes(15);
    expect(spec(first())?.state).toBe("active");
    await world.minutes(1);
    expect(spec(first())?.state).toBe("retired");
  });

  it("stays while the lists are not complete", async () => {
    putIdentity(first(), keyOf());
    await world.minutes(20);
    world.api.followedSince = undefined;
    await expect(world.work(`identities delete ${first()}`)).rejects.toThrow("are not complete");
    expect(spec(first())).toBeDefined();
  });

  it("I13: that every write conflicts with stays as it is, and none is deleted wrongly", async () => {
    putIdentity(first(), keyOf());
    putIdentity(300, "k8s:old=1;", { state: "retired", retiredAt: "2029-12-01T00:00:00Z" });
    let conflicts = 0;
    world.api.before = ({ method }) => {
      if (method === "GET") return;
      conflicts++;
      throw new ApiError("the object has been modified", { status: 409, reason: "Conflict" });
    };
    await world.minutes(20);
    expect(conflicts).toBeGreaterThan(4);
    expect([spec(first())?.state, spec(300)?.state]).toEqual(["active", "retired"]);
    expect(world.identityChanges).toEqual([]);
    expect(world.log).toEqual([]);
    world.api.before = () => undefined;
    await world.minutes(1);
    expect([spec(first())?.state, spec(300)]).toEqual(["retired", undefined]);
  });

  it("I13: that was written to between the look and the deletion is not deleted", async () => {
    const old = { state: "retired", retiredAt: "2029-12-01T00:00:00Z" };
    putIdentity(300, "k8s:old=1;", old);
    await world.minutes(14);
    world.api.before = ({ method }) => {
      if (method === "DELETE") putIdentity(300, "k8s:old=1;", { state: "active" });
    };
    await world.minutes(2);
    expect(spec(300)).toMatchObject({ state: "active" });
    expect(world.identityChanges).toEqual([]);
  });

  it("takes its turn: at most 250 are changed within a minute", async () => {
    for (let number = 1000; number < 1600; number++) putIdentity(number, `k8s:old=${number};`);
    await world.minutes(15);
    const retired = () => Array.from({ length: 600 }, (_, index) => spec(1000 + index)?.state).filter((state) => state === "retired");
    expect(retired()).toHaveLength(0);
    const counts: number[] = [];
    for (let minute = 0; minute < 3; minute++) {
      await world.minutes(1);
      await world.look();
      counts.push(retired().length);
    }
    expect(counts).toEqual([250, 500, 600]);
  });
});

describe("An identity that is deleted by hand while a pod uses it", () => {
  it("I9: is created again with the same number, also where a number before it has become free", async () => {
    const [one = 0, two = 0] = numbersOf();
    putIdentity(one, "k8s:other=1;");
    addPod("a");
    await world.look();
    await world.look();
    expect(spec(two)?.key).toBe(keyOf());
    world.api.remove(pathOf(one));
    world.api.remove(pathOf(two));
    await world.look();
    expect(spec(two)?.key).toBe(keyOf());
    expect(spec(one)).toBeUndefined();
    expect(world.identityChanges).toEqual(["created", "created"]);
  });

  it("I10: gets another number where its own has been taken, and says so", async () => {
    const [one = 0, two = 0] = numbersOf();
    addPod("a");
    await world.look();
    await world.look();
    putIdentity(one, "k8s:other=1;");
    await world.look();
    expect(spec(two)?.key).toBe(keyOf());
    expect(world.log.at(-2)).toBe(`identity ${one} was deleted while pods used it, and is another's now: ${keyOf()} is identity ${two}`);
    expect(world.identityChanges).toEqual(["created", "renumbered", "created"]);
  });
});

describe("Identities", () => {
  it("are not touched with --identities=false", async () => {
    const world = worldWithNamespace({ identities: "false" });
    world.addPod("a");
    await world.minutes(20);
    expect(world.api.writes).toEqual([]);
    expect(world.duties.identities).toBeUndefined();
  });
});
