/** docs/reference/api.md and docs/reference/agent.md say what the agent's own tables say. */
import { readFileSync } from "node:fs";
import { AgentMetrics } from "../../../agent/observe/metrics.ts";
import { AGENT } from "../../../agent/start/options.ts";
import { CONTROLLER } from "../../../controller/options.ts";
import { AGENT_PAGE, API_PAGE, apiPage, CONTROLLER_PAGE, withOptions } from "../../../scripts/agent-pages.ts";

const HINT = "bash scripts/bun scripts/agent-pages.ts writes them anew";

it(`docs/reference/api.md is as new as the API's tables: ${HINT}`, () => {
  expect(readFileSync(API_PAGE, "utf8")).toBe(apiPage());
});

it(`docs/reference/agent.md has every option of the agent: ${HINT}`, () => {
  const page = readFileSync(AGENT_PAGE, "utf8");
  expect(page).toBe(withOptions(AGENT, page));
});

it(`docs/reference/controller.md has every option of the controller: ${HINT}`, () => {
  const page = readFileSync(CONTROLLER_PAGE, "utf8");
  expect(page).toBe(withOptions(CONTROLLER, page));
});

it("docs/reference/agent.md names exactly the figures that the agent has", async () => {
  const metrics = new AgentMetrics();
  metrics.watchPolicy(() => undefined);
  const names = new Set([...(await metrics.text()).matchAll(/^# HELP (\S+)/gm)].map(([, name]) => name));
  const page = readFileSync(AGENT_PAGE, "utf8");
  const figures = page.slice(page.indexOf("### Figures"), page.indexOf("### Traces"));
  expect(new Set(figures.match(/tortie_\w+/g)?.filter((name) => name !== "tortie_"))).toEqual(names);
});
