/** The restless world of a node with a store of its own (test/support/restless). */
import { EPISODES } from "../../support/restless/episodes.ts";
import { testRestless } from "../../support/restless/suite.ts";
import { LOCAL_EPISODES } from "./episodes.ts";
import { World } from "./world.ts";

describe("A restless node", () => {
  testRestless({ title: "restless", episodes: [...EPISODES, ...LOCAL_EPISODES], create: World.create, seconds: 150 });
});
