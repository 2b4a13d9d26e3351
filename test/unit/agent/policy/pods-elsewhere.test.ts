/** What becomes of endpoints whose pod is bound to another node, after a restart of the agent. */
import { podsElsewhere } from "../../../../agent/policy/pods-elsewhere.ts";
import { decodePod, type Pod } from "../../../../lib/kubernetes/objects.ts";

const podOf = (name: string): Pod => decodePod({ metadata: { namespace: "shop", name, uid: name } });

describe("An endpoint of a pod that the copy of this node's pods lacks", () => {
  it("is asked for once, again after a failure, and not at all where its pod is known or has no object", async () => {
    const asked: string[] = [];
    const learned: string[] = [];
    let isAway = true;
    const ask = podsElsewhere({
      endpoints: {
        list: () =>
          ["known", "away", "there", "gone"].map((name) => ({
            hostInterface: `cali-${name}`,
            addresses: [],
            pod: { namespace: "shop", name, uid: name, runtimeUid: undefined, labels: {} },
          })),
        isKnown: (hostInterface) => hostInterface === "cali-known" || learned.includes(hostInterface),
        learn: (hostInterface, pod) => learned.push(`${hostInterface}`, pod.name),
      },
      readPod: async (key) => {
        asked.push(key);
        if (key === "shop/away" && isAway) throw new Error("no route");
        return key === "shop/gone" ? undefined : podOf(key.slice(5));
      },
    });
    const { signal } = new AbortController();
    await expect(ask(signal)).rejects.toThrow("no route");
    expect([asked.splice(0), learned]).toEqual([
      ["shop/away", "shop/there", "shop/gone"],
      ["cali-there", "there"],
    ]);
    isAway = false;
    await ask(signal);
    await ask(signal);
    expect([asked, learned]).toEqual([["shop/away"], ["cali-there", "there", "cali-away", "away"]]);
  });
});
