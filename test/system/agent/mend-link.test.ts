/** When the agent mends a link that stands: real links and routes, and a store that says whose the addresses are. */
import { apply, expressionOf, probe } from "../../support/dataplane-probe.ts";
import { desiredFor, HOST_INTERFACE } from "../../support/desired-state.ts";
import { Node } from "../../support/node.ts";
import type { MendedRecord, Word } from "../../support/programs/mend-recorded.ts";

const ADDRESS = "10.60.0.7";
const PROGRAM = `${process.cwd()}/test/support/programs/mend-recorded.ts`;

/** Takes the host's route to the container and the owner's name of the host end away, and lets the agent look at the link. */
async function mendWithoutRoute(grant: "block" | "external", word: Word) {
  await using node = await Node.create();
  node.excuse("there is a link, and neither store nor grant", "not-granted", "unasked");
  const desired = desiredFor(await node.addPod(), { addresses: [`${ADDRESS}/32`] });
  await apply(node, desired);
  await node.ip("route", "del", ADDRESS);
  await node.ip("link", "set", HOST_INTERFACE, "alias", "");

  const call = `(await import("${PROGRAM}")).mendRecorded(${expressionOf(desired)}, "${grant}", "${word}", ${await indexOf(node)})`;
  const { value, error } = await probe<MendedRecord>(node, call);
  if (value === undefined) throw new Error(error?.message);
  const routes = (await node.ip("-j", "route", "show")).map(({ dst }) => String(dst));
  const [{ ifalias = "" } = {}] = await node.ip("-j", "link", "show", "dev", HOST_INTERFACE);
  return { ...value, isMended: routes.includes(ADDRESS), isNamed: ifalias !== "" };
}

async function indexOf(node: Node): Promise<number> {
  const [{ ifindex } = {}] = await node.ip("-j", "link", "show", "dev", HOST_INTERFACE);
  return Number(ifindex);
}

describe("G21: a link that stands and lacks its route", () => {
  it("is left as it is where the store says that its address is not the endpoint's any more", async () => {
    expect(await mendWithoutRoute("block", "lost")).toEqual({
      isMended: false,
      isNamed: false,
      asked: [ADDRESS],
      notes: [`The link is not mended: ${ADDRESS} not granted to it any more`],
    });
  });

  it("is mended where the store says that its address is", async () => {
    const { notes, ...found } = await mendWithoutRoute("block", "granted");
    expect(found).toEqual({ isMended: true, isNamed: true, asked: [ADDRESS] });
    expect(notes).toContainEqual(expect.stringContaining(`mended: host route ${ADDRESS}/32`));
  });

  it("is mended but for its route, which uses the address, where nobody can be asked, and says so", async () => {
    const { notes, ...found } = await mendWithoutRoute("block", "unreachable");
    expect(found).toEqual({ isMended: false, isNamed: true, asked: [ADDRESS] });
    expect(notes).toContainEqual(
      expect.stringContaining(`not mended before the store says whose the address is: host route ${ADDRESS}/32`),
    );
  });

  it("is mended without asking the IPAM plugin of somebody else, which answers for addresses that are used again alone", async () => {
    expect(await mendWithoutRoute("external", "lost")).toMatchObject({ isMended: true, asked: [] });
  });
});
