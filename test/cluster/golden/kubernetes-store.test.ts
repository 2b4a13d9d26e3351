/** The replayer's own store: what it puts is what it reads, and it counts what others ask. */
import { mapTexts, parseJson, recordOf } from "../../golden/compare/json.ts";
import { loadRecording, type Recording, readRecording } from "../../golden/recording/recording.ts";
import { stateFromPlurals } from "../../golden/recording/stored-state.ts";
import { resultOf } from "../../golden/runner/result.ts";
import { kubernetesRunner } from "../../golden/runner/runner.ts";
import { Sandbox } from "../../golden/sandbox/sandbox.ts";
import { ReplayCluster } from "../../golden/store/kubernetes/cluster.ts";
import { kubernetesStore } from "../../golden/store/kubernetes/kubernetes-store.ts";
import type { ReplayStore } from "../../golden/store/replay-store.ts";
import { words } from "../../support/words.ts";

const CLAIMED = "2026-01-01T00:00:00Z";

describe("the API server as a replay store", () => {
  let cluster: ReplayCluster;
  beforeAll(async () => {
    cluster = await ReplayCluster.start();
  });
  afterAll(async () => {
    await cluster[Symbol.asyncDispose]();
  });

  async function inSandbox<T>(recording: Recording, work: (store: ReplayStore, sandbox: Sandbox) => Promise<T>): Promise<T> {
    await using sandbox = await Sandbox.open({ hostname: "recorder", podNamespaces: [] });
    await using store = await kubernetesStore(cluster).open(sandbox, recording);
    return await work(store, sandbox);
  }

  /** Objects of `before` with the times that a play would put there. */
  function objectsOf(recording: Recording) {
    return recording.objects.map((object) => ({ ...object, spec: recordOf(mapTexts(object.spec, fillTime)) }));
  }

  it.each(words`
    foreign-fields sequence-53-bits sequence-max affinity-foreign-label-type handle-upper-case block-deleted-mark
    unallocated-double vm-uid-mismatch
  `)("holds what a recording begins with, every digit, label and annotation of it (%s)", async (name) => {
    const recording = loadRecording("ipam-kdd", name);
    const before = recordOf(mapTexts(recordOf(recordOf(parseJson(recording.text)).before), fillTime));
    const held = await inSandbox(recording, async (store) => {
      await store.seed(objectsOf(recording));
      return store.readObjects();
    });
    expect(held).toEqual({ ...stateFromPlurals(before), pods: {} });
  });

  it("gives a scenario nothing of the one before, not even what a finalizer holds", async () => {
    for (const [suite, name] of [["main", "pod-terminating"] as const, ["ipam-kdd", "pools-terminating"] as const]) {
      const recording = loadRecording(suite, name);
      await inSandbox(recording, async (store) => {
        await store.seed(recording.objects);
        await store.applyChange([], [{ kind: suite === "main" ? "Pod" : "IPPool", name: suite === "main" ? "pod1" : "p4" }]);
      });
    }
    const left = await inSandbox(loadRecording("main", "version-1.0.0"), async (store) => {
      await store.seed([]);
      return store.readObjects();
    });
    expect(left).toEqual({ blocks: {}, affinities: {}, handles: {}, endpoints: {}, pods: {} });
  });

  it("replaces a pod's annotations when a scenario changes it", async () => {
    const recording = loadRecording("main", "del-bad-hwaddr");
    const pods = await inSandbox(recording, async (store) => {
      await store.seed(recording.objects);
      for (const step of recording.steps) if (step.kind === "change") await store.applyChange(step.put, step.remove);
      return (await store.readObjects()).pods;
    });
    expect(pods).toEqual({
      pod1: {
        "cni.projectcalico.org/containerID": "cid1",
        "cni.projectcalico.org/podIP": "10.60.0.0/32",
        "cni.projectcalico.org/podIPs": "10.60.0.0/32",
      },
    });
  });

  /** A recording whose calls name another kubeconfig file. */
  function withKubeconfig(name: string, recorded: string, suffix: string): Recording {
    const text = loadRecording("main", name).text.replaceAll(`{{kubeconfig}}${recorded}`, `{{kubeconfig}}${suffix}`);
    return readRecording("main", name, text);
  }

  it.each([
    ["a client certificate as one with a token", "kubeconfig-inline", "-inline", "-certs"],
    ["no authority as one with a foreign authority", "kubeconfig-wrongca", "-wrongca", "-noca"],
  ])("lets a kubeconfig with %s be played", async (_, name, recorded, suffix) => {
    const recording = withKubeconfig(name, recorded, suffix);
    expect(recording.text).toContain(suffix);
    expect((await resultOf(recording, kubernetesRunner(cluster))).problems).toEqual([]);
  });

  it("refuses to play a recording whose kubeconfig nobody writes", async () => {
    const recording = withKubeconfig("kubeconfig-inline", "-inline", "-exec");
    await expect(resultOf(recording, kubernetesRunner(cluster))).rejects.toThrow("nobody writes {{kubeconfig}}-exec");
  });

  it("refuses connections to the kubeconfig of a server that is away", async () => {
    const text = loadRecording("ipam-kdd", "api-forbidden").text.replaceAll("{{state}}/forbidden", "{{state}}/unreachable");
    const answer = await inSandbox(readRecording("ipam-kdd", "api-forbidden", text), async (_, sandbox) => {
      const server = (await sandbox.shell("host", `grep -o 'https://[^"]*' ${sandbox.dir}/state/unreachable`)).stdout.trim();
      return sandbox.shell("host", `curl -sSk ${server}`);
    });
    // 7: nobody listens there.
    expect(answer.exit).toBe(7);
  });

  it("can be reached from a sandbox that has no link, and counts what is asked from there only", async () => {
    const recording = loadRecording("main", "version-1.0.0");
    const { links, requests } = await inSandbox(recording, async (store, sandbox) => {
      await store.seed(recording.objects);
      await store.readObjects();
      const ask = `${sandbox.dir}/ask`;
      const path = "https://127.0.0.1:6443/api/v1/namespaces/rec/pods/pod1";
      sandbox.writeFile(
        ask,
        `#!/bin/sh\ncurl -sf --cacert '${sandbox.dir}/kubeconfig-ca.crt' -H "Authorization: Bearer $(cat ${sandbox.dir}/kubeconfig-token)" ${path}`,
      );
      const asked = await sandbox.shell("host", ask);
      const shown = await sandbox.shell("host", "ip -br link");
      return { links: shown.stdout, requests: [JSON.parse(asked.stdout).metadata.name, await store.requests(), await store.requests()] };
    });
    expect(requests).toEqual(["pod1", ["GET /api/v1/namespaces/rec/pods/pod1 200"], []]);
    expect(links.trim().split("\n")).toEqual([expect.stringMatching(/^lo /)]);
  });
});

function fillTime(text: string): string {
  return text.replace(/\{\{set:\w+ -?\d+ s ago\}\}/g, CLAIMED);
}
