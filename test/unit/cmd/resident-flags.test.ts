/** A wrong command line of the programs that live on. */
import { AGENT } from "../../../agent/start/options.ts";
import { parseFlags } from "../../../cmd/resident-flags.ts";
import { CONTROLLER } from "../../../controller/options.ts";

describe("a wrong command line of tortie-node", () => {
  it.each([
    [["--run-dri", "/x"], "there is no option --run-dri: did you mean --run-dir?"],
    [["--log-levle=debug"], "there is no option --log-levle: did you mean --log-level?"],
    [["--print-shema"], "there is no option --print-shema: did you mean --print-schema?"],
    [["--something-else"], "there is no option --something-else"],
    [["extra"], 'one word too many: "extra"'],
    [["--run-dir"], "the value of --run-dir is missing"],
  ])("%j is refused with what was meant", async (argv, message) => {
    await expect(parseFlags(AGENT, "The agent.", argv)).rejects.toThrow(new Error(message));
  });
});

describe("an option that is given twice", () => {
  const each = [AGENT, CONTROLLER].flatMap((of) =>
    Object.entries(of.table).flatMap(([name, { type }]) => (type === "string" ? [{ of, name }] : [])),
  );

  it.each(each)("$of.program takes the last --$name", async ({ of, name }) => {
    expect((await parseFlags(of, "It.", [`--${name}=1`, `--${name}=2`])).given).toEqual({ [name]: "2" });
  });
});
