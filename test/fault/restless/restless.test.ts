/** The restless world of a node with a store of its own (test/support/restless). */
import { BOOTS } from "../../support/restless/boots.ts";
import { EPISODES } from "../../support/restless/episodes.ts";
import { MISTAKEN } from "../../support/restless/mistaken.ts";
import { testRestless } from "../../support/restless/suite.ts";
import { LOCAL_EPISODES } from "./episodes.ts";
import { World } from "./world.ts";

describe("A restless node", () => {
  testRestless({
    title: "restless",
    episodes: [...EPISODES, ...MISTAKEN, ...BOOTS, ...LOCAL_EPISODES],
    create: World.create,
    seconds: 150,
  });
});
