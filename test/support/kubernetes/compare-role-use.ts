/** The last step of the whole cluster suite (scripts/suites): `compare-role-use.ts FOLDER`, with what its runs have kept there. */
import { compareRights, EXPLAINED, grantedRights, keptUse } from "./role-use.ts";

const [folder = ""] = process.argv.slice(2);
const problems = compareRights(grantedRights(), keptUse(folder), EXPLAINED, true);
for (const problem of problems) console.error(problem);
if (problems.length > 0) console.error("Mend the role in manifests/, or say in test/support/kubernetes/role-use.ts why the right stays.");
process.exit(problems.length > 0 ? 1 : 0);
