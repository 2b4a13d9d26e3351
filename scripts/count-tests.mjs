// Adds up Jest's reports of a folder. With a file as second argument, keeps the sum there too, on top of what it holds.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [folder, countFile] = process.argv.slice(2);
const sum = { passed: 0, failed: 0, skipped: 0 };
for (const file of readdirSync(folder)) {
  const report = JSON.parse(readFileSync(join(folder, file), "utf8"));
  sum.passed += report.numPassedTests;
  sum.failed += report.numFailedTests + report.numRuntimeErrorTestSuites;
  sum.skipped += report.numPendingTests + report.numTodoTests;
}
if (countFile !== undefined) {
  if (existsSync(countFile)) for (const [key, value] of Object.entries(JSON.parse(readFileSync(countFile, "utf8")))) sum[key] += value;
  writeFileSync(countFile, JSON.stringify(sum));
}
console.log(`${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`);
