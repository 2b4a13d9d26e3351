/** Which endpoints the policy engine learns of, and as which pods. */
import { type FoundEnd, PolicyEndpoints } from "../../../../agent/policy/endpoints.ts";
import type { EndpointRecord } from "../../../../handover/record.ts";
import type { Pod } from "../../../../lib/kubernetes/objects.ts";
import { decodePod } from "../../../../lib/kubernetes/objects.ts";
import { ResourceStore } from "../../../../lib/kubernetes/watch/resource-cache.ts";
import type { LocalEndpoint } from "../../../../policy/model.ts";
import { recordOf } from "../../../support/endpoint-record.ts";
import { NEW } from "../../../support/policy-view.ts";

function pod(uid: string, labels: Readonly<Record<string, string>>, annotations = {}): Pod {
  const ports = [{ name: "http", containerPort: 8080 }, { containerPort: 9 }];
  return decodePod({ metadata: { namespace: "shop", name: "web", uid, labels, annotations }, spec: { containers: [{ ports }] } });
}

function record(id: number, change: Partial<EndpointRecord> = {}): EndpointRecord {
  return recordOf(id, {
    hostInterface: { name: "cali1", alias: "a" },
    addresses: [{ address: "10.0.0.1", family: 4, grant: "block" }],
    pod: "shop/web",
    podUID: "u1",
    ...change,
  });
}

function world(hasServer = true, mayBeSelected = () => false) {
  const store = new ResourceStore<Pod>((error) => {
    throw error;
  });
  let version = 0;
  const told: [string, LocalEndpoint | undefined][] = [];
  const endpoints = new PolicyEndpoints({
    tell: (...one) => told.push(one),
    pods: hasServer ? store : undefined,
    mayBeSelected,
  });
  const set = (value: Pod | undefined) =>
    value === undefined ? store.delete("shop/web") : store.set("shop/web", String(++version), () => value);
  const last = () => told.at(-1)?.[1]?.pod?.labels;
  return { endpoints, told, set, last };
}

describe("endpoints of policy", () => {
  it("have labels and named ports of their pod, follow its changes, and are told of once", () => {
    const { endpoints, told, set, last } = world();
    set(pod("u1", { app: "web" }));
    endpoints.record(record(1));
    expect(told).toEqual([
      [
        "cali1",
        {
          addresses: NEW.addresses,
          pod: { namespace: "shop", name: "web", labels: { app: "web" }, ports: [{ name: "http", protocol: "TCP", port: 8080 }] },
        },
      ],
    ]);
    set(pod("u1", { app: "web" }));
    endpoints.record(record(1));
    expect(told).toHaveLength(1);
    set(pod("u1", { app: "db" }));
    expect(last()).toEqual({ app: "db" });
    endpoints.forget(record(1));
    expect(told.at(-1)).toEqual(["cali1", undefined]);
  });

  it("wait for the object of their pod, and take none of another UID", () => {
    const { endpoints, told, set, last } = world();
    endpoints.admit(NEW);
    set(pod("u0", { app: "namesake" }));
    expect([told, endpoints.isKnown("cali1")]).toEqual([[], false]);
    set(pod("u1", { app: "web" }));
    expect([last(), endpoints.isKnown("cali1")]).toEqual([{ app: "web" }, true]);
  });

  it("keep what their pod was when its object goes or is replaced", () => {
    const { endpoints, set, last } = world();
    set(pod("u1", { app: "web" }));
    endpoints.admit(NEW);
    endpoints.record(record(1));
    set(undefined);
    set(pod("u2", { app: "namesake" }));
    endpoints.record(record(1));
    expect(last()).toEqual({ app: "web" });
  });

  it("are found by their host end and by their pod, as they are wanted now", () => {
    const { endpoints } = world(false);
    const found = () => [endpoints.get("cali1")?.pod?.uid, endpoints.ofPod("shop/web")?.pod?.uid];
    expect(found()).toEqual([undefined, undefined]);
    const takeBack = endpoints.admit(NEW);
    expect(found()).toEqual(["u1", "u1"]);
    endpoints.record(record(1));
    endpoints.record(record(2, { podUID: "u2" }));
    takeBack();
    expect(found()).toEqual(["u2", "u2"]);
    endpoints.forget(record(2));
    expect(found()).toEqual([undefined, undefined]);
  });

  it("know a static pod by the UID that the runtime has, whatever becomes of its mirror", () => {
    const { endpoints, set, last } = world();
    endpoints.record(record(1, { podUID: "mirror1", runtimePodUID: "static" }));
    set(pod("mirror2", { app: "static" }, { "kubernetes.io/config.hash": "static" }));
    expect(last()).toEqual({ app: "static" });
  });

  it("have the labels that the runtime gives where no API server knows the pod, and none without a pod", () => {
    const call = JSON.stringify({
      protocol: 1,
      containerId: "c1",
      ifname: "eth0",
      args: "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_LABELS=app:web",
      path: "",
      stdin: "{}",
      env: {},
    });
    const request = { digest: "", cniVersion: "", configDigest: "", call };
    const { endpoints, told, last } = world(false);
    endpoints.record(record(1, { request, podUID: undefined }));
    expect(last()).toEqual({ app: "web" });
    endpoints.record(record(1, { request, podUID: undefined, pod: undefined }));
    expect(told).toHaveLength(1);
    endpoints.record(record(2, { pod: undefined, podUID: undefined, hostInterface: { name: "cali2", alias: "" } }));
    expect(told.at(-1)).toEqual(["cali2", { addresses: NEW.addresses, pod: undefined }]);
  });

  it("are taken back when their ADD does not come, and stay when it has", () => {
    const { endpoints, told, set } = world();
    set(pod("u1", {}));
    const takeBack = endpoints.admit(NEW);
    takeBack();
    expect(told.map(([, endpoint]) => endpoint === undefined)).toEqual([false, true]);
    const late = endpoints.admit(NEW);
    endpoints.record(record(1));
    late();
    expect(told.at(-1)?.[1]).toBeDefined();
  });

  it("outlive the DEL of an older sandbox of the same pod, whose host end has the same name", () => {
    const { endpoints, told, set } = world();
    set(pod("u1", {}));
    endpoints.record(record(1));
    endpoints.admit(NEW);
    endpoints.record(record(2));
    endpoints.forget(record(1));
    expect(told).toHaveLength(1);
    expect(endpoints.list()).toHaveLength(1);
    endpoints.forget(record(2));
    expect(endpoints.list()).toEqual([]);
  });

  describe("that nobody has recorded", () => {
    const end = (change: Partial<FoundEnd> = {}): FoundEnd => ({ ...NEW, isUncertain: false, ...change });

    it("have the labels of their pod, also when its object is gone, and are gone when the next look does not find them", () => {
      const { endpoints, told, set, last } = world();
      const found = end({ pod: NEW.pod && { ...NEW.pod, uid: undefined } });
      endpoints.found([found]);
      expect(endpoints.isKnown("cali1")).toBe(false);
      set(pod("u7", { app: "web" }));
      expect(last()).toEqual({ app: "web" });
      set(undefined);
      endpoints.found([found]);
      expect([last(), told.length]).toEqual([{ app: "web" }, 1]);
      endpoints.found([]);
      expect(told.at(-1)).toEqual(["cali1", undefined]);
    });

    it("give way to a record", () => {
      const { endpoints, set, last } = world();
      set(pod("u1", { app: "web" }));
      endpoints.found([end({ pod: undefined, isUncertain: true })]);
      expect(last()).toBeUndefined();
      endpoints.record(record(1));
      endpoints.found([]);
      expect(last()).toEqual({ app: "web" });
    });

    it("are open while no policy may select them, and closed while one may", () => {
      let isSelected = false;
      const { endpoints, told } = world(true, () => isSelected);
      endpoints.found([end({ pod: undefined, isUncertain: true })]);
      expect(told.at(-1)).toEqual(["cali1", { addresses: NEW.addresses, pod: undefined }]);
      isSelected = true;
      endpoints.judgeUncertain();
      expect(told.at(-1)).toEqual(["cali1", undefined]);
      isSelected = false;
      endpoints.judgeUncertain();
      expect(endpoints.isKnown("cali1")).toBe(true);
    });

    it("are uncertain when they were taken over without the runtime's arguments and no API server knows the pod", () => {
      const { endpoints } = world(false, () => true);
      endpoints.record(record(1, { takenOver: "without-arguments", podUID: undefined }));
      expect(endpoints.isKnown("cali1")).toBe(false);
      endpoints.record(record(2, { takenOver: "with-arguments", podUID: undefined }));
      expect(endpoints.isKnown("cali1")).toBe(true);
    });
  });
});
