import { expressionOf, probe } from "../../support/dataplane-probe.ts";
import { desiredFor, OWNER } from "../../support/desired-state.ts";
import { Node } from "../../support/node.ts";

describe("many attachments in one process", () => {
  it("leak no descriptor and leave every thread in the namespace it was in", async () => {
    await using node = await Node.create();
    const pod = await node.addPod();
    const desired = expressionOf(desiredFor(pod, { addresses: ["10.60.0.0/32", "fd60::/128"] }));
    const attachment = JSON.stringify({
      sandbox: pod.netnsPath,
      hostInterface: "calif3c3d6a083e",
      owner: OWNER,
    });

    const { value, error } = await probe<{ fds: number[]; namespaces: string[] }>(
      node,
      `(async () => {
        const { readdirSync, readlinkSync } = await import("node:fs");
        const descriptors = () => readdirSync("/proc/self/fd").length;
        const namespaces = () => [...new Set(readdirSync("/proc/self/task").map((task) => readlinkSync("/proc/self/task/" + task + "/ns/net")))];
        const fds = [];
        const home = namespaces();
        for (let times = 0; times < 50; times++) {
          await apply(${desired}, false);
          await dataplane.inspect(${desired});
          if (times % 5 === 0) await apply(${desired}, true).catch(() => undefined);
          await dataplane.remove(${attachment});
          fds.push(descriptors());
        }
        // The kernel is still busy with the last links when they are gone already.
        const busy = () => descriptors() > fds[0];
        for (let tries = 0; busy() && tries < 100; tries++) await Bun.sleep(50);
        fds.push(descriptors());
        return { fds, namespaces: [...home, ...namespaces()] };
      })()`,
    );

    expect(error).toBeUndefined();
    expect(value?.fds).toHaveLength(51);
    expect(value?.fds.at(-1)).toBeLessThanOrEqual(value?.fds[0] ?? 0);
    expect(new Set(value?.namespaces).size).toBe(1);
    await node.expectClean();
  });

  it("may be made by many processes at once", async () => {
    await using node = await Node.create();
    const pods = await Promise.all(Array.from({ length: 12 }, () => node.addPod()));
    const states = pods.map((pod, index) =>
      desiredFor(pod, { host: `cali${index}`, addresses: [`10.60.0.${index}/32`, `fd60::${index + 1}/128`] }),
    );

    const answers = await Promise.all(states.map((desired) => probe(node, `apply(${expressionOf(desired)}, false)`)));

    expect(answers.filter(({ error }) => error !== undefined)).toEqual([]);
    expect((await node.leftovers()).links).toHaveLength(12);
    expect(await node.ip("-j", "route", "show")).toHaveLength(12);
  });
});
