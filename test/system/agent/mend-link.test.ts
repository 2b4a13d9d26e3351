/** When the agent mends a link that stands: real links and routes, and a store that says whose the addresses are. */
import { apply, expressionOf, probe } from "../../support/dataplane-probe.ts";
import { desiredFor } from "../../support/desired-state.ts";
import { Node } from "../../support/node.ts";
import type { MendedRecord, Word } from "../../support/programs/mend-recorded.ts";

const ADDRESS = "10.60.0.7";
const PROGRAM = `${process.cwd()}/test/support/programs/mend-recorded.ts`;

/** Takes the host's route to the container away, and lets the agent look at the link. */
async function mendWithoutRoute(grant: "block" | "external", word: Word) {
  await using node = await Node.create();
  node.excuse("there is a link, and neither store nor grant", "not-granted", "unasked");
  const desired = desiredFor(await node.addPod(), { addresses: [`${ADDRESS}/32`] });
  await apply(node, desired);
  await node.ip("route", "del", ADDRESS);

  const call = `(await import("${PROGRAM}")).mendRecorded(${expressionOf(desired)}, "${grant}", "${word}")`;
  const { value, error } = await probe<MendedRecord>(node, call);
  if (value === undefined) throw new Error(error?.message);
  const routes = (await node.ip("-j", "route", "show")).map(({ dst }) => String(dst));
  return { ...value, isMended: routes.includes(ADDRESS) };
}

describe("G21: a link that stands and lacks its route", () => {
  it("is left as it is where the store says that its address is not the endpoint's any more", async () => {
    expect(await mendWithoutRoute("block", "lost")).toEqual({
      isMended: false,
      asked: [ADDRESS],
      notes: [`The link is not mended: ${ADDRESS} not granted to it any more`],
    });
  });

  it.each(["granted", "unreachable"] as const)("is mended where its address is %s", async (word) => {
    expect(await mendWithoutRoute("block", word)).toMatchObject({
      isMended: true,
      asked: [ADDRESS],
      notes: [expect.stringContaining(`mended: host route ${ADDRESS}/32`)],
    });
  });

  it("is mended without asking the IPAM plugin of somebody else, which answers for addresses that are used again alone", async () => {
    expect(await mendWithoutRoute("external", "lost")).toMatchObject({ isMended: true, asked: [] });
  });
});
